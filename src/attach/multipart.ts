/** A FormData as bytes that are the same each time: fetch itself makes up another boundary for each send. */

/**
 * The multipart body of a form (RFC 7578, in the form that the HTML standard gives it), with its type. Files are
 * referred to, not read.
 */
export function multipartBlob(form: FormData, boundary = `merchant-auth-${crypto.randomUUID()}`): Blob {
  const parts: (string | Blob)[] = []
  for (const [name, value] of form) {
    const disposition = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(withCrLf(name))}"`
    if (typeof value === 'string') {
      parts.push(`${disposition}\r\n\r\n${withCrLf(value)}\r\n`)
    } else {
      const type = value.type === '' ? 'application/octet-stream' : value.type
      parts.push(
        `${disposition}; filename="${escaped(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`,
        value,
        '\r\n',
      )
    }
  }
  return new Blob([...parts, `--${boundary}--\r\n`], { type: `multipart/form-data; boundary=${boundary}` })
}

function withCrLf(text: string): string {
  return text.replace(/\r\n|\r|\n/g, '\r\n')
}

function escaped(name: string): string {
  return name.replace(/\n/g, '%0A').replace(/\r/g, '%0D').replace(/"/g, '%22')
}

/** The boundary that a Content-Type names (RFC 2046 §5.1.1), in lower case, as the type of a Blob is. */
export function boundaryOf(contentType: string): string | undefined {
  return /^\s*multipart\/form-data\s*;(?:.*;)?\s*boundary="?([^";]+)/i
    .exec(contentType)?.[1]
    ?.trim()
    .toLowerCase()
}

/** Whether a body is a form of the platform's own, not one of the form-data package. */
export function isFormData(body: unknown): body is FormData {
  return body instanceof FormData
}
