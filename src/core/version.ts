// The version and the commit of dq. The build writes both into the bundle; code run from source has
// placeholders.

export const version: string = typeof __DQ_VERSION__ === 'string' ? __DQ_VERSION__ : '0.0.0-source';

/** 40 hexadecimal digits, with `-dirty` where files differed from it; `unknown` for a build outside a
 *  checkout. */
export const commit: string = typeof __DQ_COMMIT__ === 'string' ? __DQ_COMMIT__ : 'unknown';
