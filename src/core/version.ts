// The version of dq. The build writes it in from package.json; run from source there is none to tell.

export const version: string = typeof __DQ_VERSION__ === 'string' ? __DQ_VERSION__ : '0.0.0-source';
