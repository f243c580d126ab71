declare module '*.sql' {
  const text: string;
  export default text;
}
declare module '*.lua' {
  const text: string;
  export default text;
}
declare module '*.proto' {
  const text: string;
  export default text;
}
/** The build defines both: from package.json, from git. */
declare const __DQ_VERSION__: string | undefined;
declare const __DQ_COMMIT__: string | undefined;
