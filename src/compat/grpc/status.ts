// status.ts turns a DqError into the status of a gRPC call. The trailing metadata has dq's code, the field
// and the remedy. Pure.

import { Metadata, type StatusObject, status } from '@grpc/grpc-js';
import { catalogue, type DqError, type ErrorCode } from '../../core/errors.ts';
import { grpcLimits } from '../limits.ts';

type HttpStatus = (typeof catalogue)[ErrorCode]['status'];

/** Clients repeat UNAVAILABLE by themselves. */
const byHttpStatus: Readonly<Record<HttpStatus, status>> = {
  400: status.INVALID_ARGUMENT,
  401: status.UNAUTHENTICATED,
  403: status.PERMISSION_DENIED,
  404: status.NOT_FOUND,
  405: status.UNIMPLEMENTED,
  409: status.FAILED_PRECONDITION,
  412: status.ABORTED,
  413: status.RESOURCE_EXHAUSTED,
  415: status.INVALID_ARGUMENT,
  429: status.RESOURCE_EXHAUSTED,
  502: status.UNKNOWN,
  503: status.UNAVAILABLE,
};

/** `isRepeatable`: false for a push without an id: a client that repeated it would make a second job. */
export function statusOf(error: DqError, isRepeatable = true): StatusObject {
  const metadata = new Metadata();
  metadata.set('dq-code', error.code);
  for (const { field } of error.errors) metadata.add('dq-field', asciiOf(fieldOf(field)));
  const remedy = /; (.+)$/s.exec(error.message)?.[1];
  if (remedy !== undefined) metadata.set('dq-remedy', asciiOf(remedy));
  const { id } = error.extra;
  if (typeof id === 'string') metadata.set('dq-id', asciiOf(id));
  return { code: codeOf(error, isRepeatable), details: clipped(detailOf(error)), metadata };
}

function codeOf({ code }: DqError, isRepeatable: boolean): status {
  if (code === 'job_exists') return status.ALREADY_EXISTS;
  if (code === 'unknown' && !isRepeatable) return status.UNKNOWN;
  return byHttpStatus[catalogue[code].status];
}

/** With the field as the .proto names it. */
export function detailOf({ message, errors: [first] }: DqError): string {
  return first === undefined ? message : `${fieldOf(first.field)}: ${first.message}`;
}

/** `maxAttempts` and `content-type` of the HTTP API, as fields of a .proto. */
export function fieldOf(name: string): string {
  return name.replace('-', '_').replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Values of metadata are visible ASCII. */
function asciiOf(text: string): string {
  return clipped(text).replace(/[^\x20-\x7e]+/g, encodeURIComponent);
}

/** Its first characters, without lone surrogates, which have no encoding. */
export function clipped(text: string): string {
  const whole = [...text.slice(0, 2 * grpcLimits.statusCharsMax + 2)];
  const isCut = whole.length > grpcLimits.statusCharsMax;
  const kept = isCut ? `${whole.slice(0, grpcLimits.statusCharsMax).join('')}…` : text;
  return kept.replace(/\p{Cs}/gu, '\ufffd');
}
