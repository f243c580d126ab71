import { expect, it } from 'vitest';
import { portOf } from '../../src/core/url/server-url.ts';

it('portOf: returns 80 for an http URL without port', () => {
  expect(portOf(new URL('http://127.0.0.1:80').href)).toBe(80);
  expect(portOf('http://[::1]:6789')).toBe(6789);
});
