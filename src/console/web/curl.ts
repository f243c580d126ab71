// Writes HTTP requests as curl commands for a POSIX shell.

export interface CurlRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** text, or base64 of other bytes; neither: none */
  readonly body?: string;
  readonly bodyBase64?: string;
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** --data-raw, because --data-binary reads a file where the body begins with @. */
export function curlOf({ method, url, headers, body, bodyBase64 }: CurlRequest): string {
  const command = [
    `curl -X ${method} ${quoted(url)}`,
    ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    // curl would add a content type of its own.
    ...(Object.hasOwn(headers, 'content-type') ? [] : ["-H 'content-type:'"]),
    ...(bodyBase64 === undefined ? [] : ['--data-binary @-']),
    ...(body === undefined || body === '' ? [] : [`--data-raw ${quoted(body)}`]),
  ].join(' \\\n  ');
  return bodyBase64 === undefined ? command : `echo ${bodyBase64} | base64 -d | ${command}`;
}
