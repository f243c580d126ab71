// Sets theme and language before the first paint, so that the page does not flash in another one.
(() => {
  const read = (name) => {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  };
  const theme = read('dq-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  // A page of the manual has one language.
  if (document.currentScript?.dataset.language === 'page') return;
  const language = read('dq-language') ?? (navigator.language.startsWith('zh') ? 'zh' : 'en');
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
})();
