/** Whose the terminal is: the system stops a process in the background (started with `&`) that sets it or reads keys. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

/** The process group of a process, and the one in the foreground of its terminal. */
export interface ProcessGroups {
  readonly own: number
  /** -1 or 0 without a terminal. */
  readonly foreground: number
}

/** Whether this process may set its terminal; false where nobody knows. */
export function isInForeground(): boolean {
  if (process.platform === 'win32') return true // has no process groups
  try {
    return maySet(process.platform === 'linux' ? groupsByProc() : groupsByPs())
  } catch {
    return false
  }
}

/** Without a terminal that controls the processes, none of them is stopped. */
export function maySet({ own, foreground }: ProcessGroups): boolean {
  return foreground === own || foreground <= 0
}

/** As Linux has it, where ps is not always installed: proc_pid_stat(5). */
export function groupsByProc(stat: string = readFileSync('/proc/self/stat', 'utf8')): ProcessGroups {
  // The name of the program is in parentheses, and may have some of its own.
  const [, , own, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return checked(own, foreground)
}

/** As other systems have it, macOS among them. */
export function groupsByPs(): ProcessGroups {
  const args = ['-o', 'pgid=,tpgid=', '-p', String(process.pid)]
  const text = execFileSync('ps', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  const [own, foreground] = text.trim().split(/\s+/)
  return checked(own, foreground)
}

function checked(own = '', foreground = ''): ProcessGroups {
  const groups = { own: Number.parseInt(own, 10), foreground: Number.parseInt(foreground, 10) }
  if (Number.isNaN(groups.own + groups.foreground)) throw new Error('The process groups are unknown')
  return groups
}
