// Starts the page: language, session, then the shell.

import { render } from 'preact';
import { start } from './api/session.ts';
import { Shell } from './shell.tsx';
import { choose, language } from './words/words.ts';

const root = document.querySelector('#app');
if (root !== null) {
  if (language.value === 'zh') await choose('zh');
  render(<Shell />, root);
  await start();
}
