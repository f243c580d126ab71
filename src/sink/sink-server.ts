// A small callback receiver for `dq sink` and the trial of the console: accepts any request, checks its
// signature, sends the configured reply and reports the request. Stores nothing. The reply never depends on
// the signature.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { limits } from '../core/limits.ts';
import { setTimeout, wallNow } from '../runtime/time.ts';
import { sinkLimits } from './limits.ts';
import { checkSignature, type SinkKeys } from './signature-check.ts';

export interface SinkAnswer {
  readonly status: number;
  readonly text: string;
  readonly contentType: string;
  readonly delayMs: number;
}

interface SinkOptions {
  readonly host: string;
  readonly port: number;
  readonly answer: SinkAnswer;
  readonly keys: SinkKeys;
  readonly onRequest: (report: SinkReport) => void;
}

/** One request. null = the header is missing or invalid. */
export interface SinkReport {
  /** epoch ms of its last byte */
  readonly at: number;
  readonly method: string;
  /** with its query */
  readonly path: string;
  readonly topic: string | null;
  readonly id: string | null;
  readonly attempt: number | null;
  readonly maxAttempts: number | null;
  /** time since dq-due-at; negative = early */
  readonly latenessMs: number | null;
  readonly signature: 'ok' | 'wrong' | 'not checked';
  /** reason of a wrong signature */
  readonly reason: string | null;
  readonly contentType: string | null;
  /** as they came: names and values in turn */
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
}

export interface Sink {
  readonly url: string;
  /** Closes open connections too. */
  close(): Promise<void>;
}

/** Listens; rejects with the error of listen(). */
export async function openSink(options: SinkOptions): Promise<Sink> {
  const server = createServer((request, response) => receive(options, request, response));
  server.maxConnections = sinkLimits.connectionsMax;
  server.headersTimeout = limits.headersTimeoutMs;
  server.requestTimeout = limits.requestTimeoutMs;
  await listen(server, options.host, options.port);
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(':') ? `[${options.host}]` : options.host;
  return { url: `http://${host}:${port}`, close: () => close(server) };
}

function receive(options: SinkOptions, request: IncomingMessage, response: ServerResponse): void {
  const chunks: Buffer[] = [];
  let size = 0;
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > limits.frameBytesMax) request.destroy();
    else chunks.push(chunk);
  });
  // The sender disconnected: no reply and no report.
  request.on('error', () => {});
  request.on('end', () => {
    options.onRequest(reportOf(request, Buffer.concat(chunks), options.keys));
    if (options.answer.delayMs === 0) answer(response, options.answer);
    // unref: a pending reply must not delay the end of the sink.
    else setTimeout(() => answer(response, options.answer), options.answer.delayMs).unref();
  });
}

function answer(response: ServerResponse, { status, text, contentType }: SinkAnswer): void {
  const bodiless = status === 204 || status === 304;
  response.statusCode = status;
  if (text !== '' && !bodiless) response.setHeader('content-type', contentType);
  response.end(bodiless ? undefined : text);
}

function reportOf(request: IncomingMessage, body: Buffer, keys: SinkKeys): SinkReport {
  const at = wallNow();
  const header = (name: string): string | undefined => {
    const value = request.headers[name];
    return Array.isArray(value) ? value.join(', ') : value;
  };
  const topic = header('dq-topic') ?? null;
  const verdict = checkSignature(
    {
      id: header('webhook-id'),
      timestamp: header('webhook-timestamp'),
      signature: header('webhook-signature'),
      body,
    },
    keys.of(topic),
    at,
  );
  const dueAt = Date.parse(header('dq-due-at') ?? '');
  return {
    at,
    method: request.method ?? '',
    path: request.url ?? '',
    topic,
    id: decoded(header('dq-job-id')),
    attempt: wholeNumber(header('dq-attempt')),
    maxAttempts: wholeNumber(header('dq-max-attempts')),
    latenessMs: Number.isNaN(dueAt) ? null : at - dueAt,
    signature: verdict.signature,
    reason: verdict.signature === 'wrong' ? verdict.reason : null,
    contentType: header('content-type') ?? null,
    rawHeaders: request.rawHeaders,
    body,
  };
}

function decoded(text: string | undefined): string | null {
  if (text === undefined) return null;
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not from dq: shown unchanged
  }
}

function wholeNumber(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // exclusive: in a worker, node:cluster would give port 0 the socket of another server that asked for it.
    server.listen({ port, host, exclusive: true }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
