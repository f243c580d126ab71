// schemas.ts holds the TypeBox schemas that several routes share. A route's schemas give its types, its
// validation and its part of /openapi.json. JSON.stringify writes replies, not a serializer: a member that a
// schema forgot still leaves.
//
// A schema with a `title` is a named schema: openapi.ts moves it to components.schemas and refers to it.

