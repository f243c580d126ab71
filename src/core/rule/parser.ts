// Builds the tree of a retry rule by precedence climbing. Its depth is the nesting of the source, at most
// limits.ruleDepthMax: a chain of && or || is one node, so recursion over a tree is safe.

import { limits } from '../limits.ts';
import { type Literal, type Reference, RuleMistake, readTokens, type Token } from './tokens.ts';

export type Comparison = '==' | '!=' | '===' | '!==' | '<' | '<=' | '>' | '>=';

export type RuleNode =
  | Reference
  | Literal
  | { readonly kind: 'not'; readonly operand: RuleNode }
  | {
      readonly kind: 'compare';
      readonly operator: Comparison;
      readonly left: RuleNode;
      readonly right: RuleNode;
    }
  | { readonly kind: 'all' | 'any'; readonly operands: readonly RuleNode[] };

/** Precedence of the operators. Comparisons of one level do not chain. */
const levels: Readonly<Record<string, number>> = {
  '||': 1,
  '&&': 2,
  '==': 3,
  '!=': 3,
  '===': 3,
  '!==': 3,
  '<': 4,
  '<=': 4,
  '>': 4,
  '>=': 4,
};
const firstComparisonLevel = 3;

/** The tree and its distinct references. Throws RuleMistake. */
export function parseTree(source: string): {
  readonly root: RuleNode;
  readonly references: readonly Reference[];
} {
  const parser = new RuleParser(readTokens(source));
  return { root: parser.parse(), references: [...parser.references.values()] };
}

class RuleParser {
  readonly references = new Map<string, Reference>();
  readonly #tokens: readonly Token[];
  #next = 0;
  #nodes = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  parse(): RuleNode {
    if (this.#peek().kind === 'end')
      throw new RuleMistake('the rule is empty; write a condition such as {res.code}!=200', 0);
    const root = this.#expression(1);
    const after = this.#peek();
    if (after.kind === 'end') return root;
    if (after.source === ')') throw new RuleMistake('this ")" has no opening "("; remove it', after.at);
    if (/^[+-]/.test(after.source))
      throw new RuleMistake('arithmetic is not available; compare the value itself', after.at);
    throw new RuleMistake('an operator such as "==" or "&&" is missing here', after.at);
  }

  #peek(): Token {
    // Nothing consumes the token `end`, so there is always a token.
    return this.#tokens[this.#next] as Token;
  }

  #expression(lowest: number): RuleNode {
    let left = this.#operand();
    for (;;) {
      const token = this.#peek();
      const level = levelOf(token);
      if (level < lowest) return left;
      this.#next += 1;
      left = this.#join(token, left, this.#expression(level + 1));
      if (level >= firstComparisonLevel && levelOf(this.#peek()) === level)
        throw new RuleMistake(
          'comparisons do not chain; join two of them with "&&", or use parentheses',
          this.#peek().at,
        );
    }
  }

  #join(token: Token, left: RuleNode, right: RuleNode): RuleNode {
    this.#count(token);
    const operator = token.source;
    if (operator !== '&&' && operator !== '||')
      return { kind: 'compare', operator: operator as Comparison, left, right };
    const kind = operator === '&&' ? 'all' : 'any';
    return { kind, operands: left.kind === kind ? [...left.operands, right] : [left, right] };
  }

  #operand(): RuleNode {
    const token = this.#peek();
    if (token.kind === 'operand') {
      this.#next += 1;
      this.#count(token);
      if (token.operand.kind === 'reference') this.references.set(token.operand.text, token.operand);
      return token.operand;
    }
    if (token.source === '!') {
      this.#count(token);
      return this.#nested(token, () => ({ kind: 'not', operand: this.#operand() }));
    }
    if (token.source === '(') return this.#nested(token, () => this.#closed(token, this.#expression(1)));
    throw new RuleMistake(
      token.kind === 'end'
        ? 'the rule ends where a value is expected'
        : `a value is expected before "${token.source}"`,
      token.at,
    );
  }

  #closed(open: Token, inner: RuleNode): RuleNode {
    const token = this.#peek();
    if (token.source === ')') {
      this.#next += 1;
      return inner;
    }
    if (token.kind === 'end') throw new RuleMistake('this "(" has no closing ")"', open.at);
    throw new RuleMistake('an operator or ")" is missing here', token.at);
  }

  #nested(token: Token, parse: () => RuleNode): RuleNode {
    if (this.#depth === limits.ruleDepthMax)
      throw new RuleMistake(`a rule nests at most ${limits.ruleDepthMax} deep`, token.at);
    this.#next += 1;
    this.#depth += 1;
    const node = parse();
    this.#depth -= 1;
    return node;
  }

  #count(token: Token): void {
    this.#nodes += 1;
    if (this.#nodes > limits.ruleNodesMax)
      throw new RuleMistake(`a rule has at most ${limits.ruleNodesMax} values and operators`, token.at);
  }
}

function levelOf(token: Token): number {
  return token.kind === 'sign' ? (levels[token.source] ?? 0) : 0;
}
