import { expect, it } from 'vitest';
import { isText } from '../../src/broker/stomp-wire.ts';

it.each([
  ['application/json', '"ü中"', true],
  ['application/vnd.a+json; charset=utf-8', '{}', true],
  ['text/plain', 'a', true],
  ['application/json', '"😀"', false],
  ['text/plain; charset=iso-8859-1', Buffer.of(0xfc), false],
  ['application/octet-stream', 'a', false],
  [null, 'a', false],
])('stomp: type %s, body %s: a message of text: %s', (contentType, body, expected) => {
  expect(isText(contentType, Buffer.from(body))).toBe(expected);
});
