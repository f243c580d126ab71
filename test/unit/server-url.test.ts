import { expect, it } from 'vitest';
import { portOf } from '../../src/core/url/server-url.ts';

it('portOf: answers 80 for an http URL, which leaves that port out', () => {
  expect(portOf(new URL('http://127.0.0.1:80').href)).toBe(80);
  expect(portOf('http://[::1]:6789')).toBe(6789);
});
