/** Where the manual explains a message, as a short name: the package contains the page, wherever it is published. */

/**
 * A section of the page on troubleshooting.
 *
 * @param section the section's anchor
 */
export function inManual(section: string): string {
  return `merchant-auth/docs/troubleshooting.md#${section}`
}
