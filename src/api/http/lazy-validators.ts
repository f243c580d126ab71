// Compiles the schema of a request when the first request needs it. Most processes never serve most of the
// routes, and compiling all of them took a quarter of the start of a dq-server.

import AjvCompiler from '@fastify/ajv-compiler';

type Build = ReturnType<typeof AjvCompiler>;
/** What Fastify expects of a validator. */
type Validate = (data: unknown) => true | { readonly error: unknown };

/** Takes the place of the compiler that Fastify would build. A wrong schema fails its first request, not the
 *  start. */
export function lazyValidators(build: Build = AjvCompiler()): Build {
  const buildLazy = (...given: Parameters<Build>) => {
    const compile = build(...given);
    return (route: Parameters<typeof compile>[0]): Validate => {
      let validate: ReturnType<typeof compile> | null = null;
      return (data) => {
        validate ??= compile(route);
        return validate(data) === true ? true : { error: validate.errors };
      };
    };
  };
  return buildLazy as unknown as Build;
}
