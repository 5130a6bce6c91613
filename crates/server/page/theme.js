// Light or dark: as the system says, or as the person chose.

const KEY = 'raymond.theme';

export function openTheme() {
  const chosen = localStorage.getItem(KEY);
  if (chosen) document.documentElement.dataset.theme = chosen;
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

export function switchTheme() {
  const next = isDark() ? 'light' : 'dark';
  const isSystem = matchMedia('(prefers-color-scheme: dark)').matches === (next === 'dark');
  if (isSystem) {
    localStorage.removeItem(KEY);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEY, next);
    document.documentElement.dataset.theme = next;
  }
}
