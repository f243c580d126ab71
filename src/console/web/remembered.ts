// Choices of this browser. Where its storage is forbidden they last as long as the page.

export function recalled(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function remember(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Storage is forbidden.
  }
}
