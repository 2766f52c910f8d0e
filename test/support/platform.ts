/** What differs between operating systems. */

export const isWindows = process.platform === 'win32'

/** The code of an operation where a part of the path is a file. Windows says only that the path was not found. */
export const NOT_A_DIRECTORY = isWindows ? 'ENOENT' : 'ENOTDIR'
