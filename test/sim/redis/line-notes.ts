// Scripts whose statements note their lines, which worlds run when they are asked which lines they reached
// (scripts/worlds/bundle.ts).

/** Begins a note. */
export const lineMark = "hits['";

/** A script that returns its lines beside its reply, or beside the error that it throws. */
export function returningLines(text: string): string {
  const [shebang = '', ...rest] = text.split('\n');
  return `${shebang}
local hits = {}
local function script()
${rest.join('\n')}
end
local isDone, reply = pcall(script)
local lines = {}
for line in pairs(hits) do lines[#lines + 1] = line end
if not isDone and type(reply) ~= 'table' then reply = redis.error_reply(reply) end
return { lines, reply }`;
}
