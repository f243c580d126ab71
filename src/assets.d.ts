declare module '*.sql' {
  const text: string;
  export default text;
}
declare module '*.lua' {
  const text: string;
  export default text;
}
/** Set by the build from package.json. */
declare const __DQ_VERSION__: string | undefined;
