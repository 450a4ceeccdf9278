// A row above the cards of tasks: words to search for, and a button for each library.
document$.subscribe(() => {
  const cards = [...document.querySelectorAll(".task")];
  if (!cards.length || document.querySelector(".filter")) return;
  const row = document.createElement("div");
  row.className = "filter";
  const words = document.createElement("input");
  words.type = "search";
  words.placeholder = "Filter: go2, rough, depth, success ...";
  words.setAttribute("aria-label", "Filter tasks");
  row.append(words);
  let library = "";
  const buttons = ["rsl_rl", "rl_games", "skrl", "fast_sac", "ddppo"].map((name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      library = library === name ? "" : name;
      show();
    });
    row.append(button);
    return button;
  });
  const show = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const card of cards) {
      const text = card.textContent.toLowerCase();
      const codes = [...card.querySelectorAll("code")].map((code) => code.textContent);
      card.hidden =
        !wanted.every((word) => text.includes(word)) || (library && !codes.includes(library));
    }
    for (const button of buttons)
      button.setAttribute("aria-pressed", String(button.textContent === library));
    // A family without a card left is hidden with its heading.
    for (const grid of document.querySelectorAll(".tasks")) {
      const none = [...grid.children].every((card) => card.hidden);
      grid.hidden = none;
      if (grid.previousElementSibling?.tagName === "H2") grid.previousElementSibling.hidden = none;
    }
  };
  words.addEventListener("input", show);
  document.querySelector(".tasks").previousElementSibling.before(row);
});
