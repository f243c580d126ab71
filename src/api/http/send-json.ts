// sendJson sends a complete reply of JSON in one write to the socket. Until Node 24, writeHead() and end()
// hand the socket the reply and an empty text, and it writes both by writev(), which costs 8 of the 50 µs of
// a push. The one write needs members of ServerResponse that Node does not document. So it is used only on
// releases that the tests have compared with Node's own way, and only for the usual reply; every other reply
// goes Node's way.
// Invariant: both ways send the same bytes and leave the connection in the same state.

import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { wallNow } from '../../runtime/time.ts';

/** What Node keeps in a ServerResponse, beyond its types. */
interface Internals {
  _header: string | null;
  _headerSent: boolean;
  _hasBody: boolean;
  _keepAliveTimeout: number;
  _maxRequestsPerSocket: number;
  finished: boolean;
}

/** Major versions on which test/unit/send-json.test.ts has passed. */
const isKnown = /^2[02]\./.test(process.versions.node);

export function sendJson(response: ServerResponse, status: number, json: string): void {
  const bytes = Buffer.byteLength(json);
  const { socket } = response;
  // No socket: the reply waits behind another one. Not writable: the client has left, and Node discards the
  // reply without an event. More bytes than characters: not ASCII.
  if (isKnown && socket?.writable === true && bytes === json.length && isUsual(response)) {
    sendAtOnce(response as ServerResponse & Internals, socket, status, json);
    return;
  }
  response.writeHead(status, { 'content-type': contentType, 'content-length': bytes });
  response.end(json);
}

const contentType = 'application/json; charset=utf-8';

/** Nothing of this reply was set or sent before, and the connection goes on. */
function isUsual(response: ServerResponse): boolean {
  const { _hasBody, _maxRequestsPerSocket, finished } = response as ServerResponse & Internals;
  return (
    response.shouldKeepAlive &&
    !response.headersSent &&
    !finished &&
    _hasBody &&
    _maxRequestsPerSocket === 0 &&
    response.getHeaderNames().length === 0
  );
}

function sendAtOnce(
  response: ServerResponse & Internals,
  socket: Socket,
  status: number,
  json: string,
): void {
  const header = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: ${contentType}\r\ncontent-length: ${json.length}\r\nDate: ${dateText()}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(response._keepAliveTimeout / 1_000)}\r\n\r\n`;
  response.statusCode = status;
  response._header = header;
  response._headerSent = true;
  response.finished = true;
  socket.write(header + json, 'latin1');
  response.emit('prefinish');
  // The connection goes on with the next request.
  if (socket.writableLength === 0) response.emit('finish');
  else finishLater(response, socket);
}

/** The client does not read: until it does, the reply is not sent, and the connection is not idle. */
function finishLater(response: ServerResponse, socket: Socket): void {
  socket.write('', () => void response.emit('finish'));
}

let dateOf = 0;
let date = '';

/** As Node writes it: the current second. */
function dateText(): string {
  const second = Math.floor(wallNow() / 1_000);
  if (second !== dateOf) {
    dateOf = second;
    date = new Date(second * 1_000).toUTCString();
  }
  return date;
}
