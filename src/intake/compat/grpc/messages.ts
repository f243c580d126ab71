// messages.ts reads and writes the messages of a .proto file. It rejects unknown fields, which protobufjs
// drops: dq accepts no field that it would ignore, and a consumer of Dubbo without dq's .proto sends other
// fields. Pure.

import type { ServiceDefinition } from '@grpc/grpc-js';
import protobuf, { type Type } from 'protobufjs';
import { DqError, invalidField } from '../../../core/errors.ts';

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
        ...{ requestStream: false, responseStream: method.responseStream === true },
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
    const unknown = unknownField(type, bytes, '');
    if (unknown !== null)
      return invalidField(unknown, `unknown field of ${type.name}; generate the stub from dq's .proto`);
    return type.toObject(type.decode(bytes), { longs: String, enums: String });
  } catch (cause) {
    const message = `request: not a message ${type.name}; generate the stub from dq's .proto`;
    return new DqError('invalid', message, { cause });
  }
}

/** Its path in numbers, `1.11`; null: there is none. Throws for other bytes than a message. */
function unknownField(type: Type, bytes: Uint8Array, path: string): string | null {
  const reader = protobuf.Reader.create(bytes);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const number = tag >>> 3;
    const field = type.fieldsById[number];
    if (field === undefined) return `${path}${number}`;
    if ((tag & 7) === 2 && field.resolvedType instanceof protobuf.Type) {
      const inner = unknownField(field.resolvedType, reader.bytes(), `${path}${number}.`);
      if (inner !== null) return inner;
    } else reader.skipType(tag & 7);
  }
  return null;
}
