// A row of the manual's search index: one section of a page. The build writes it, the pages read it.

/** `target`: name of the page, and the heading's id; `words`: of the section, in lower case. */
export type SearchRow = readonly [target: string, page: string, heading: string, words: string];
