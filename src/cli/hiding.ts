/** Foreign text, made fit to be shown where it enters: without secrets, and without what could steer a terminal. */
import { redact, UsedSecrets } from '../redact.ts'
import { printable } from './terminal.ts'

/** What must not be shown, and what is left of foreign text without it. What a command says itself is never searched. */
export class Hiding {
  readonly secrets: UsedSecrets = new UsedSecrets()

  /** One line of it. Searched before it is cut, so that no half of a secret remains. */
  readonly shown = (text: string): string => printable(redact(text, this.secrets))
}
