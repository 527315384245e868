"use strict";
// Everything from the server is inserted as text, never as markup.
const $ = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu; // controls, bidi marks, broken text: shown as escapes
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\u200c": "\u200c", "\u200d": "\u200d" };
const LEAST = 0.5; // a smaller probability of the best class is unsure
const LEAST_LEAD = 0.1; // and so is a smaller lead over the second class
const MOST_NAMES = 60; // classes that are listed before there is a result
let model = null; // the response of GET domains
let files = []; // the last files, classified again when another domain is chosen
let truth = null; // the domain and class of the example that was chosen, if it is known
let lastRequest = 0; // responses to earlier requests are ignored
let pictures = []; // object URLs of the shown images, to be released

function shown(name) {
  return name.replace(UNSEEN, (character) => {
    const code = character.codePointAt(0).toString(16);
    const escape = code.length <= 2 ? `\\x${code.padStart(2, "0")}` : `\\u${code.padStart(4, "0")}`;
    return SHORT[character] ?? (code.length <= 4 ? escape : `\\U${code.padStart(8, "0")}`);
  });
}

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = shown(text);
  return node;
}

function chosen() {
  const input = document.querySelector("#domains input:checked");
  return model.domains.find((domain) => domain.name === input.value);
}

async function start() {
  try {
    const answer = await fetch("domains");
    model = await answer.json();
  } catch {
    return fail("The service does not respond. Is it still running?");
  }
  $("model").textContent = shown(`${model.model}: one ${model.backbone} for ${model.domains.length} domains`);
  document.title = shown(`Prunus: ${model.model}`);
  model.domains.forEach((domain, number) => {
    const label = element("label");
    const input = element("input");
    Object.assign(input, { type: "radio", name: "domain", value: domain.name, checked: number === 0 });
    input.addEventListener("change", choose);
    label.append(input, domain.name);
    $("domains").append(label);
  });
  $("photograph").hidden = !matchMedia("(pointer: coarse)").matches; // a phone or a tablet
  choose();
}

function choose() {
  const domain = chosen();
  $("usage").hidden = false;
  $("usage-text").textContent =
    `${domain.name} has ${domain.classes.length} classes and uses ${percent(domain.usage)} of the network. ` +
    `All domains together use ${percent(model.usage)}.`;
  $("usage-domain").style.width = `${100 * domain.usage}%`;
  $("usage-union").style.width = `${100 * model.usage}%`;
  $("examples").hidden = domain.examples.length === 0;
  $("example-list").replaceChildren(...domain.examples.map((example) => {
    const button = element("button");
    const image = element("img");
    const name = shown(example.name);
    Object.assign(image, { src: example.path, alt: `Example: ${name}`, title: name, loading: "lazy" });
    button.type = "button";
    button.append(image);
    button.addEventListener("click", () => tryExample(example));
    return button;
  }));
  listClasses(domain);
  if (files.length) classify();
}

// before there is a result, the page says what the chosen domain can tell apart
function listClasses(domain) {
  const count = domain.classes.length;
  $("empty-title").textContent = shown(`${domain.name} tells ${count} classes apart`);
  const names = domain.classes.slice(0, MOST_NAMES).map((name) => element("li", "", name));
  if (count > MOST_NAMES) names.push(element("li", "more", `and ${count - MOST_NAMES} more`));
  $("classes").replaceChildren(...names);
}

async function tryExample(example) {
  const domain = chosen();
  try {
    const answer = await fetch(example.path);
    const content = await answer.blob();
    const isClass = domain.classes.includes(example.name); // examples of the demo are named after their classes
    take([new File([content], example.name, { type: content.type })], isClass ? { domain, name: example.name } : null);
  } catch {
    fail("The example could not be loaded. Is the service still running?");
  }
}

function take(newFiles, known = null) {
  if (!model || !newFiles.length) return;
  files = newFiles;
  truth = known;
  classify();
}

function limitExceeded() {
  const limits = model.limits;
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  if (files.length > limits.images) return `Choose at most ${limits.images} images at once. These are ${files.length}.`;
  if (bytes > limits.upload_bytes - 1000 * files.length) {
    return `Choose at most ${(limits.upload_bytes / 1e6).toFixed(1)} MB at once. This is ${(bytes / 1e6).toFixed(1)} MB.`;
  }
  return "";
}

async function classify() {
  const request = ++lastRequest;
  const problem = limitExceeded();
  if (problem) return fail(problem);
  const form = new FormData();
  files.forEach((file) => form.append("images", file, file.name));
  $("results").classList.add("waiting");
  const begin = performance.now();
  let answer, content;
  try {
    answer = await fetch(`predict/${encodeURIComponent(chosen().name)}?top=5`, { method: "POST", body: form });
    content = await answer.json();
  } catch {
    if (request === lastRequest) fail("The service does not respond. Is it still running?");
    return;
  }
  if (request !== lastRequest) return;
  if (!answer.ok) return fail(content.error);
  show(content, performance.now() - begin);
}

function fail(message) {
  $("results").classList.remove("waiting");
  $("results").replaceChildren();
  $("empty").hidden = true;
  $("time").textContent = "";
  $("error").textContent = shown(message);
  $("error").hidden = false;
  $("answer").scrollIntoView({ block: "nearest" });
}

function show(content, milliseconds) {
  $("error").hidden = true;
  $("empty").hidden = true;
  pictures.forEach((address) => URL.revokeObjectURL(address));
  pictures = files.map((file) => URL.createObjectURL(file));
  $("results").classList.remove("waiting");
  $("results").replaceChildren(...content.results.map((result, number) => {
    const block = element("div", "result");
    const image = element("img");
    const known = truth && truth.domain.name === content.domain ? truth.name : null;
    const kind = truth ? "Example" : "Your image";
    Object.assign(image, { src: pictures[number], alt: `${kind} ${shown(result.name)}` });
    const list = element("ol");
    list.append(...result.predictions.map(bar));
    block.append(image, known === null ? element("p", "name", result.name) : trueClass(known, result.predictions[0]));
    const doubt = doubtAbout(result.predictions);
    if (doubt) block.append(element("p", "unsure", doubt));
    block.append(list);
    return block;
  }));
  $("time").textContent =
    `${content.domain}: ${content.milliseconds.toFixed(1)} ms in the service, ${milliseconds.toFixed(0)} ms round trip`;
  reveal();
}

// on a phone the result is below the examples; its place is known once the pictures are
async function reveal() {
  await Promise.allSettled([...document.querySelectorAll(".result img")].map((image) => image.decode()));
  const isBelow = matchMedia("(max-width: 46rem)").matches;
  $("answer").scrollIntoView({ block: isBelow ? "start" : "nearest" });
}

function trueClass(name, best) {
  const line = element("p", "truth", "True class: ");
  const isRight = best.label === name;
  line.append(element("b", "", name), element("span", isRight ? "right" : "wrong", isRight ? "predicted correctly" : "not predicted"));
  return line;
}

// says why an answer is unsure; empty if it is not
function doubtAbout(predictions) {
  const [best, second] = predictions;
  if (best.probability < LEAST) return `Unsure: the most probable class has less than ${100 * LEAST} %.`;
  if (second && best.probability - second.probability < LEAST_LEAD) {
    return `Unsure: the two most probable classes are less than ${100 * LEAST_LEAD} points apart.`;
  }
  return "";
}

function bar(prediction) {
  const row = element("li");
  const track = element("div", "track");
  const fill = element("div", "fill");
  track.setAttribute("aria-hidden", "true");
  fill.style.width = `${100 * prediction.probability}%`;
  track.append(fill);
  row.append(element("span", "label", prediction.label), element("span", "share", percent(prediction.probability)), track);
  return row;
}

for (const id of ["file", "camera"]) {
  $(id).addEventListener("change", (event) => {
    take([...event.target.files]);
    event.target.value = ""; // allows choosing the same file again
  });
}
for (const kind of ["dragenter", "dragover"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.add("over");
  });
}
for (const kind of ["dragleave", "drop"]) document.addEventListener(kind, () => $("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  take([...event.dataTransfer.files]);
});
document.addEventListener("paste", (event) => take([...event.clipboardData.files]));
start();
