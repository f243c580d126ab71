// The members of a JSON object as the characters that were pushed. JSON.parse would round 9007199254740993, write 1.0 as 1,
// drop blanks inside nested values and move names such as "10" to the front; nothing of that may happen to a job's body.

export interface JsonMember {
  readonly name: string;
  /** the value as it stands in the text, without the blanks around it */
  readonly text: string;
}

/** In the order of the text, names that repeat included. null = the text is no JSON object. */
export function membersOf(json: string): readonly JsonMember[] | null {
  try {
    JSON.parse(json);
  } catch {
    // Whoever pushed it was told; a topic may have come to need an object since.
    return null;
  }
  let at = afterBlanks(json, 0);
  if (json[at] !== '{') return null;
  const members: JsonMember[] = [];
  at = afterBlanks(json, at + 1);
  while (json[at] !== '}') {
    const nameEnd = endOfText(json, at);
    const valueFrom = afterBlanks(json, afterBlanks(json, nameEnd) + 1);
    const valueEnd = endOfValue(json, valueFrom);
    members.push({ name: JSON.parse(json.slice(at, nameEnd)), text: json.slice(valueFrom, valueEnd) });
    at = afterBlanks(json, valueEnd);
    if (json[at] === ',') at = afterBlanks(json, at + 1);
  }
  return members;
}

// What follows reads valid JSON only, by loops: a regular expression over a long text, or a call per level of nesting, ends
// in a full stack.

function afterBlanks(json: string, from: number): number {
  let at = from;
  while (json[at] === ' ' || json[at] === '\n' || json[at] === '\t' || json[at] === '\r') at += 1;
  return at;
}

/** `from`: at the opening quote. Answers the place after the closing one. */
function endOfText(json: string, from: number): number {
  let at = from + 1;
  while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1;
  return at + 1;
}

function endOfValue(json: string, from: number): number {
  let depth = 0;
  let at = from;
  do {
    const character = json[at];
    if (character === '"') at = endOfText(json, at);
    else {
      if (character === '{' || character === '[') depth += 1;
      else if (character === '}' || character === ']') depth -= 1;
      at += 1;
    }
  } while (depth > 0 || continuesScalar(json, from, at));
  return at;
}

/** Numbers and words end with the text, a blank or what follows a member. */
function continuesScalar(json: string, from: number, at: number): boolean {
  return !'"{['.includes(json[from] ?? '"') && !' \n\t\r,}]'.includes(json[at] ?? ' ');
}
