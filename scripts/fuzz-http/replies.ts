// Judges the bytes of a connection: whole replies of the right shape, without a server failure. Their
// number is not judged: a damaged request may be two, and a rejection closes the connection.

/** Statuses of the replies, or what is wrong with one of them. */
export function judgeReplies(bytes: Buffer): readonly number[] | string {
  const statuses: number[] = [];
  let at = 0;
  while (at < bytes.length) {
    const end = bytes.indexOf('\r\n\r\n', at);
    if (end < 0) return 'a reply breaks off in its header';
    const head = bytes.toString('latin1', at, end);
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1]);
    if (!(status >= 100)) return `no status line: ${head.slice(0, 80)}`;
    at = end + 4;
    if (status === 100) continue;
    const found = bodyAt(bytes, at, head);
    if (typeof found === 'string') return found;
    // A client that leaves early sees half a reply.
    if (found === null) return statuses;
    at = found.end;
    const wrong = wrongBody(status, head, found.body);
    if (wrong !== null) return `${wrong}: ${status} ${found.body.slice(0, 300)}`;
    statuses.push(status);
  }
  return statuses;
}

/** The body behind a header and its end; null = incomplete; a text = its framing is wrong. */
function bodyAt(bytes: Buffer, at: number, head: string): { body: string; end: number } | null | string {
  const length = /^content-length: (\d+)$/im.exec(head)?.[1];
  if (length !== undefined) {
    const end = at + Number(length);
    return end > bytes.length ? null : { body: bytes.toString('utf8', at, end), end };
  }
  if (/^transfer-encoding: chunked$/im.test(head)) return chunksAt(bytes, at);
  // HTTP/1.0 has no chunks: the end of the connection ends the body.
  if (/^connection: close$/im.test(head)) return { body: bytes.toString('utf8', at), end: bytes.length };
  return `a reply without a length: ${head.slice(0, 200)}`;
}

function chunksAt(bytes: Buffer, start: number): ReturnType<typeof bodyAt> {
  const chunks: Buffer[] = [];
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return null;
    const line = bytes.toString('latin1', at, lineEnd);
    if (!/^[\da-f]{1,8}$/i.test(line)) return `a chunk without a size: ${line.slice(0, 80)}`;
    const size = Number.parseInt(line, 16);
    const end = lineEnd + 2 + size + 2;
    if (end > bytes.length) return null;
    if (bytes.toString('latin1', end - 2, end) !== '\r\n') return 'a chunk that is longer than its size';
    if (size === 0) return { body: Buffer.concat(chunks).toString('utf8'), end };
    chunks.push(bytes.subarray(lineEnd + 2, end - 2));
    at = end;
  }
}

/** A healthy daemon rejects a write only briefly (two changes of a topic at once), and sends no mail without
 *  a mail server. */
const excused: readonly unknown[] = ['not_stored', 'smtp_failed'];

function wrongBody(status: number, head: string, body: string): string | null {
  if (/node:internal|\.ts:\d|\.js:\d|\n\s+at /.test(body)) return 'the insides of the server';
  if (/^content-type: text\/plain; version=/im.test(head)) return wrongMetrics(body);
  const parsed = jsonOf(body);
  if (parsed === undefined) return 'no JSON';
  if (status < 400) return null;
  if (!/^content-type: application\/problem\+json$/im.test(head))
    return 'an error without a problem document';
  const { title, status: said, code, errors } = parsed as Record<string, unknown>;
  const whole =
    typeof title === 'string' && said === status && typeof code === 'string' && Array.isArray(errors);
  if (!whole) return 'a problem document that is not whole';
  return status >= 500 && !excused.includes(code) ? 'a failure of the server' : null;
}

/** Every line of the Prometheus text. */
function wrongMetrics(text: string): string | null {
  const odd = text.split('\n').find((line) => line !== '' && !/^# |^\w+(\{.*\})? \S+$/.test(line));
  return odd === undefined ? null : `invalid metric line (${odd})`;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the caller checks it
  }
}
