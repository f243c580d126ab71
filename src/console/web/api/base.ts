// The path under which a proxy serves the console: '' or '/dq'. The server writes it into the page.

export const base = document.querySelector<HTMLMetaElement>('meta[name="dq-base"]')?.content ?? '';
