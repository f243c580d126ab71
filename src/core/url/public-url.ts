// public-url.ts parses `console.publicUrl`: the address under which browsers reach the console behind a
// proxy.

import type { Parsed } from '../duration.ts';

export interface PublicUrl {
  /** as browsers write it in the header Origin */
  readonly origin: string;
  /** '' or `/path` without a slash at its end */
  readonly basePath: string;
  readonly isHttps: boolean;
}

const urlCharsMax = 1_024;
/** The path goes into the page as it is. */
const pathPattern = /^(?:\/[A-Za-z0-9._~-]+)*\/?$/;

export function parsePublicUrl(text: string): Parsed<PublicUrl> {
  const url = text.length <= urlCharsMax && URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    return { ok: false, message: 'must be a URL such as https://dq.example.org/console' };
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    return { ok: false, message: 'must have no user, query and fragment' };
  if (!pathPattern.test(url.pathname))
    return { ok: false, message: 'must have a path of A-Z a-z 0-9 . _ ~ - and /' };
  return {
    ok: true,
    value: {
      origin: url.origin,
      basePath: url.pathname.replace(/\/$/, ''),
      isHttps: url.protocol === 'https:',
    },
  };
}
