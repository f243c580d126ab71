// Packs a change as a record of a segment, and reads it. Big endian. A record is: length of the payload (4; 0
// = the end so far) · CRC-32 of salt, length and payload (4) · payload. The payload is: kind (1) · flags (1:
// bit 0 the number was given to this process) · number · version · origin (7 each) · dueAt (6) · failures (2)
// · length and place (1 + n) · length and topic (1 + n) · length and id (2 + n) · the fields of the kind, the
// longest one last.
// Invariants: a record is read without any other one, so damage costs only the damaged ones. Kinds and codes
// are stored: lists of codes only grow at their end.

import { crc32 } from 'node:zlib';
import type { AttemptRecord } from '../../core/job.ts';
import type { Change } from '../../core/job-change.ts';
import { deadReasonCodes, endCodes, priorityCodes, readSafe, writeSafe } from '../../core/stored-codes.ts';

const kinds = {
  accepted: 1,
  moved: 2,
  retried: 3,
  dead: 4,
  ended: 5,
  alert: 6,
  restored: 7,
  closed: 255,
} as const;
const moves = ['run', 'reschedule', 'requeue'] as const;
const none = 255;

/** bytes of length and CRC */
export const frameBytes = 8;
/** of a change, without its frame: kind … failures, and the lengths of place, topic and id */
const fixedBytes = 2 + 3 * 7 + 6 + 2 + 1 + 1 + 2;
const namesAt = 2 + 3 * 7 + 6 + 2;

/** What a payload holds: a change, or the end of the stream. */
export type Payload = Change | 'closed';

/** The change without its attempt, which a nearly full spool leaves out. */
export function withoutAttempt(change: Change): Change {
  return change.kind === 'ended' || change.kind === 'dead' ? { ...change, attempt: null } : change;
}

/** An upper bound for the bytes of a record with its frame. */
export function recordBytesMax(change: Change): number {
  const names = 3 * (change.topic.length + change.id.length + change.place.length);
  return frameBytes + fixedBytes + names + detailBytesMax(change);
}

function detailBytesMax(change: Change): number {
  switch (change.kind) {
    case 'accepted': {
      const { contentType, extension, body } = change;
      return 12 + 3 * (contentType?.length ?? 0) + (extension?.length ?? 0) + body.length;
    }
    case 'retried':
    case 'dead':
    case 'ended':
      return 1 + (change.attempt === null ? 0 : Buffer.byteLength(JSON.stringify(change.attempt)));
    default:
      return 7;
  }
}

/** Writes a record at `at` and returns the offset after it. The buffer has recordBytesMax bytes left. */
export function writeChange(bytes: Buffer, at: number, salt: Buffer, change: Change): number {
  let end = at + frameBytes;
  end = bytes.writeUInt8(kinds[change.kind], end);
  end = bytes.writeUInt8(change.isOwn ? 1 : 0, end);
  end = writeSafe(bytes, end, change.number);
  end = writeSafe(bytes, end, change.version);
  end = writeSafe(bytes, end, change.origin);
  end = bytes.writeUIntBE(change.dueAt, end, 6);
  end = bytes.writeUInt16BE(change.failures, end);
  const place = bytes.write(change.place, end + 1);
  end = bytes.writeUInt8(place, end) + place;
  const topic = bytes.write(change.topic, end + 1);
  end = bytes.writeUInt8(topic, end) + topic;
  const id = bytes.write(change.id, end + 2);
  end = bytes.writeUInt16BE(id, end) + id;
  return seal(bytes, at, writeDetail(bytes, end, change), salt);
}

/** The last record of a stream. */
export function writeClosed(bytes: Buffer, at: number, salt: Buffer): number {
  return seal(bytes, at, bytes.writeUInt8(kinds.closed, at + frameBytes), salt);
}

export const closedBytes = frameBytes + 1;

function writeDetail(bytes: Buffer, at: number, change: Change): number {
  switch (change.kind) {
    case 'accepted': {
      const { acceptedAt, priority, contentType, extension, body } = change;
      let end = bytes.writeUIntBE(acceptedAt, at, 6);
      end = bytes.writeUInt8(priorityCodes.indexOf(priority), end);
      end = bytes.writeUInt8(contentType === null ? 0 : 1, end);
      const type = bytes.write(contentType ?? '', end + 2);
      end = bytes.writeUInt16BE(type, end) + type;
      end = bytes.writeUInt16BE(extension?.length ?? 0, end);
      end += extension?.copy(bytes, end) ?? 0;
      return end + body.copy(bytes, end);
    }
    case 'moved':
      return bytes.writeUInt8(moves.indexOf(change.by), at);
    case 'retried':
      return writeAttempt(bytes, at, change.attempt);
    case 'dead':
      return writeAttempt(
        bytes,
        bytes.writeUInt8(deadReasonCodes.indexOf(change.reason), at),
        change.attempt,
      );
    case 'ended':
      return writeAttempt(bytes, bytes.writeUInt8(endCodes.indexOf(change.end), at), change.attempt);
    case 'restored': {
      const reason = change.reason === null ? none : deadReasonCodes.indexOf(change.reason);
      return bytes.writeUInt8(reason, bytes.writeUIntBE(change.deadAt ?? 0, at, 6));
    }
    case 'alert':
      return at;
  }
}

function writeAttempt(bytes: Buffer, at: number, attempt: AttemptRecord | null): number {
  return attempt === null ? at : at + bytes.write(JSON.stringify(attempt), at);
}

function seal(bytes: Buffer, at: number, end: number, salt: Buffer): number {
  bytes.writeUInt32BE(end - at - frameBytes, at);
  bytes.writeUInt32BE(checksum(bytes, at, end, salt), at + 4);
  return end;
}

function checksum(bytes: Buffer, at: number, end: number, salt: Buffer): number {
  const length = crc32(bytes.subarray(at, at + 4), crc32(salt));
  return crc32(bytes.subarray(at + frameBytes, end), length);
}

/** Whether a record may begin at `at`: a quick check for a search. */
export function mayBeRecord(bytes: Buffer, at: number): boolean {
  if (at + frameBytes >= bytes.length) return false;
  const length = bytes.readUInt32BE(at);
  if (length === 0 || at + frameBytes + length > bytes.length) return false;
  const code = bytes.readUInt8(at + frameBytes);
  return code === kinds.closed ? length === 1 : code > 0 && code <= kinds.restored && length >= fixedBytes;
}

/** The end of the record at `at`; null: no whole record is there. */
export function endOfRecord(bytes: Buffer, at: number, salt: Buffer): number | null {
  if (at + frameBytes >= bytes.length) return null;
  const length = bytes.readUInt32BE(at);
  const end = at + frameBytes + length;
  if (length === 0 || end > bytes.length) return null;
  return checksum(bytes, at, end, salt) === bytes.readUInt32BE(at + 4) ? end : null;
}

/** Reads the payload of a whole record; null: a kind that this version does not know. */
export function readPayload(record: Buffer): Payload | null {
  const payload = record.subarray(frameBytes);
  const code = payload.readUInt8(0);
  if (code === kinds.closed) return 'closed';
  if (code > kinds.restored) return null;
  const topicAt = namesAt + 1 + payload.readUInt8(namesAt) + 1;
  const idAt = topicAt + payload.readUInt8(topicAt - 1) + 2;
  const detailAt = idAt + payload.readUInt16BE(idAt - 2);
  const detail = readDetail(code, payload.subarray(detailAt));
  if (detail === null) return null;
  const common = {
    topic: payload.toString('utf8', topicAt, idAt - 2),
    id: payload.toString('utf8', idAt, detailAt),
    place: payload.toString('utf8', namesAt + 1, topicAt - 1),
    isOwn: (payload.readUInt8(1) & 1) === 1,
    number: readSafe(payload, 2),
    version: readSafe(payload, 9),
    origin: readSafe(payload, 16),
    dueAt: payload.readUIntBE(23, 6),
    failures: payload.readUInt16BE(29),
  };
  // A spread took six times as long.
  return Object.assign(common, detail) as Change;
}

function readDetail(code: number, detail: Buffer) {
  switch (code) {
    case kinds.accepted: {
      const extensionAt = 10 + detail.readUInt16BE(8) + 2;
      const bodyAt = extensionAt + detail.readUInt16BE(extensionAt - 2);
      return {
        kind: 'accepted',
        acceptedAt: detail.readUIntBE(0, 6),
        priority: priorityCodes[detail.readUInt8(6)] ?? 'low',
        contentType: detail.readUInt8(7) === 0 ? null : detail.toString('utf8', 10, extensionAt - 2),
        extension: bodyAt === extensionAt ? null : detail.subarray(extensionAt, bodyAt),
        body: detail.subarray(bodyAt),
      };
    }
    case kinds.moved:
      return { kind: 'moved', by: moves[detail.readUInt8(0)] ?? 'run' };
    case kinds.retried:
      return { kind: 'retried', attempt: readAttempt(detail, 0) };
    case kinds.dead:
      return {
        kind: 'dead',
        reason: deadReasonCodes[detail.readUInt8(0)] ?? 'attempts_exhausted',
        attempt: readAttempt(detail, 1),
      };
    case kinds.ended:
      return { kind: 'ended', end: endCodes[detail.readUInt8(0)] ?? 'done', attempt: readAttempt(detail, 1) };
    case kinds.restored: {
      const deadAt = detail.readUIntBE(0, 6);
      const reason = detail.readUInt8(6);
      return {
        kind: 'restored',
        deadAt: deadAt === 0 ? null : deadAt,
        reason: reason === none ? null : (deadReasonCodes[reason] ?? 'attempts_exhausted'),
      };
    }
    case kinds.alert:
      return { kind: 'alert' };
    default:
      return null;
  }
}

function readAttempt(detail: Buffer, at: number): AttemptRecord | null {
  return detail.length === at ? null : (JSON.parse(detail.toString('utf8', at)) as AttemptRecord);
}
