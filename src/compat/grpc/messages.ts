// messages.ts declares what a gRPC service of dq provides: a function for each unary method. It reads and
// writes the messages of its .proto file, and turns a DqError into the status of a call: the trailing
// metadata has dq's code, the field and the remedy. Before protobufjs decodes a message, it rejects
//   unknown fields, which protobufjs drops: dq accepts no field that it would ignore, and a consumer of Dubbo
//   without dq's .proto sends other fields.
//   texts that are not UTF-8, which protobufjs changes: two ids would become one.
//   more fields than a request has: each is an object, and one message could be millions.
// Pure.

import { isUtf8 } from 'node:buffer';
import { Metadata, type ServiceDefinition, type StatusObject, status } from '@grpc/grpc-js';
import protobuf, { type Field, type Type } from 'protobufjs';
import { catalogue, DqError, type ErrorCode, invalidField } from '../../core/errors.ts';
import type { Rights } from '../../core/token.ts';
import { grpcLimits } from '../limits.ts';

/** A request message: absent members are not given; 64-bit numbers are digits, enums are names. */
export type Message = { readonly [member: string]: unknown };
/** Not thrown: gRPC would answer INTERNAL. */
export type ReadMessage = Message | DqError;

/** `name`: with its package. */
export function serviceOf(proto: string, name: string): ServiceDefinition {
  const service = protobuf.parse(proto).root.resolveAll().lookupService(name);
  return Object.fromEntries(
    service.methodsArray.map((method) => {
      const request = method.resolvedRequestType as Type;
      const response = method.resolvedResponseType as Type;
      const write = (type: Type) => (value: object) =>
        Buffer.from(type.encode(type.fromObject(value)).finish());
      const definition = {
        path: `/${name}/${method.name}`,
        requestStream: false,
        responseStream: method.responseStream === true,
        requestSerialize: write(request),
        requestDeserialize: (bytes: Buffer) => readMessage(request, bytes),
        responseSerialize: write(response),
        responseDeserialize: (bytes: Buffer) => readMessage(response, bytes),
      };
      return [method.name, definition];
    }),
  );
}

function readMessage(type: Type, bytes: Buffer): ReadMessage {
  try {
    const wrong = wrongField(type, bytes, '');
    if (wrong !== null) return wrong;
    return type.toObject(type.decode(bytes), { longs: String, enums: String });
  } catch (cause) {
    const message = `request: not a message ${type.name}; generate the stub from dq's .proto`;
    return new DqError('invalid', message, { cause });
  }
}

/** `path`: numbers, such as `1.`. null: there is none. Throws for other bytes than a message. */
function wrongField(type: Type, bytes: Uint8Array, path: string): DqError | null {
  const reader = protobuf.Reader.create(bytes);
  for (let count = 1; reader.pos < reader.len; count++) {
    const tag = reader.uint32();
    const number = tag >>> 3;
    const field = type.fieldsById[number];
    if (field === undefined)
      return invalidField(
        `${path}${number}`,
        `unknown field of ${type.name}; generate the stub from dq's .proto`,
      );
    if (count > grpcLimits.fieldsMax) return invalidField(field.name, 'too many; send several calls');
    if ((tag & 7) !== wireTypeOf(field)) throw new Error(`wire type ${tag & 7} of ${field.name}`);
    if (field.type === 'string') {
      if (!isUtf8(reader.bytes())) throw new Error(`${field.name} is not UTF-8`);
    } else if (field.resolvedType instanceof protobuf.Type) {
      const inner = wrongField(field.resolvedType, reader.bytes(), `${path}${number}.`);
      if (inner !== null) return inner;
    } else reader.skipType(tag & 7);
  }
  return null;
}

/** No request has a packed field. */
function wireTypeOf({ type, resolvedType }: Field): number | undefined {
  if (resolvedType instanceof protobuf.Type) return 2;
  // An enum is a number.
  return wireTypes[resolvedType === null ? type : 'int32'];
}

const wireTypes: Readonly<Record<string, number>> = protobuf.types.basic;

/** as in dq_compat_requests_total */
export type GrpcVerb =
  | 'push'
  | 'batch'
  | 'get'
  | 'del'
  | 'pull'
  | 'ack'
  | 'nack'
  | 'extend'
  | 'finish'
  | 'restore'
  | 'clear';

/** A call under way, as its method sees it. */
export interface GrpcCall {
  readonly rights: Rights;
  /** The rights now, after a wait. Throws DqError. */
  readonly admit: () => Rights;
  /** as of clientOf */
  readonly client: string;
  readonly metadata: Metadata;
  /** until the deadline of the client; Infinity: it has none */
  readonly leftMs: number;
  /** The client leaves, or its deadline passes; at once if it has. */
  readonly onCancelled: (listener: () => void) => void;
  /** The call ends before its reply is sent. */
  readonly onUnsent: (listener: () => void) => void;
}

export interface GrpcMethod {
  readonly verb: GrpcVerb;
  /** The members of the reply. Rejects with DqError or StoreError. */
  readonly execute: (request: Message, call: GrpcCall) => Promise<object>;
  /** for the metric; default: every reply is a success */
  readonly isOk?: (reply: object) => boolean;
}

export type GrpcMethods = Readonly<Record<string, GrpcMethod>>;

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
