// Loads the bundled files of dist/chunks. Copied to dist/load.cjs by the build, and called by dist/cli.js and
// dist/worker.js. Why not Node's own import: a file comes with the code that V8 compiled from it at the build,
// which saves a quarter of the processor time of a start. The name of that code ends with V8's tag of its
// version, flags and processor features: another V8 finds none, and compiles the file.
// V8 compares only the length of the file: whoever changes a file removes its code.

'use strict';

const { readFileSync, writeFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');
const { cachedDataVersionTag } = require('node:v8');
const { Script } = require('node:vm');

const directory = join(__dirname, 'chunks');
/** by name: the file, its script and its exports */
const loaded = new Map();
const codeOf = (path) => `${path}.${cachedDataVersionTag().toString(16)}`;

/** Runs a file of chunks/ once, and returns its exports. */
function load(name) {
  const known = loaded.get(name);
  if (known !== undefined) return known.module.exports;
  const path = join(directory, name);
  // The bundle is ASCII.
  const source = readFileSync(path, 'latin1');
  const script = new Script(`(function (module, exports, require, __url) {${source}\n})`, {
    filename: path,
    cachedData: compiled(path),
  });
  const module = { exports: {} };
  loaded.set(name, { path, script, module });
  const requireOther = createRequire(path);
  const require = (other) => (other.startsWith('./') ? load(other.slice(2)) : requireOther(other));
  script.runInThisContext()(module, module.exports, require, pathToFileURL(path).href);
  return module.exports;
}

function compiled(path) {
  try {
    return readFileSync(codeOf(path));
  } catch {
    return undefined;
  }
}

/** Loads the files and keeps their compiled code, with the functions that ran. For the build. */
function keepCode(names) {
  for (const name of names) load(name);
  for (const { path, script } of loaded.values()) writeFileSync(codeOf(path), script.createCachedData());
}

module.exports = { load, keepCode };
