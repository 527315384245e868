"use strict";
// Everything from the server is inserted as text, never as markup.
const $ = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`;
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu; // controls, bidi marks, broken text: shown as escapes
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\u200c": "\u200c", "\u200d": "\u200d" };
const LEAST = 0.5; // a smaller probability of the best class is unsure
const LEAST_LEAD = 0.1; // and so is a smaller lead over the second class
const MOST_NAMES = matchMedia("(max-width: 46rem)").matches ? 12 : 24; // classes that are listed at first
const PATIENCE = [[250, "Classifying…"], [5000, "Still waiting. The service may be busy."]]; // milliseconds -> text
const RETRIED = new Set([408, 429, 502, 503, 504]); // statuses after which the same request may succeed
let model = null; // the response of GET domains
let files = []; // the last files, classified again when another domain is chosen
let truth = null; // the domain and class of the example that was chosen, if it is known
let lastRequest = 0; // responses to earlier requests are ignored
let pending = 0; // the request that has no response yet; 0 if there is none
let pictures = []; // object URLs of the files, to be released

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
    label.append(input, shown(domain.name));
    $("domains").append(label);
  });
  $("photograph").hidden = !matchMedia("(pointer: coarse)").matches; // a phone or a tablet
  choose();
}

function choose() {
  const domain = chosen();
  $("usage").hidden = false;
  $("usage-text").textContent = shown(
    `${domain.name} has ${domain.classes.length} classes and uses ${percent(domain.usage)} of the network. ` +
    `All domains together use ${percent(model.usage)}.`
  );
  $("usage-name").textContent = shown(domain.name);
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
    button.addEventListener("click", () => tryExample(example, button));
    return button;
  }));
  listClasses(domain, MOST_NAMES);
  if (files.length) classify();
}

// before there is a result, the page says what the chosen domain can tell apart
function listClasses(domain, most) {
  const count = domain.classes.length;
  $("empty-title").textContent = shown(`The ${count} classes of ${domain.name}`);
  $("classes").replaceChildren(...domain.classes.slice(0, most).map((name) => element("li", "", name)));
  $("all-classes").hidden = count <= most;
  $("all-classes").textContent = `Show all ${count} classes`;
  $("all-classes").onclick = () => listClasses(domain, count);
}

async function tryExample(example, button) {
  const domain = chosen();
  try {
    const answer = await fetch(example.path);
    const content = await answer.blob();
    const isClass = domain.classes.includes(example.name); // examples of the demo are named after their classes
    take([new File([content], example.name, { type: content.type })], isClass ? { domain, name: example.name } : null);
    button.setAttribute("aria-pressed", "true");
  } catch {
    fail("The example could not be loaded. Is the service still running?");
  }
}

function take(newFiles, known = null) {
  if (!model || !newFiles.length) return;
  files = newFiles;
  truth = known;
  pictures.forEach((address) => URL.revokeObjectURL(address));
  pictures = files.map((file) => URL.createObjectURL(file));
  document.querySelector("#example-list [aria-pressed]")?.removeAttribute("aria-pressed");
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
  wait(request);
  const begin = performance.now();
  let answer, content;
  try {
    answer = await fetch(`predict/${encodeURIComponent(chosen().name)}?top=5`, { method: "POST", body: form });
    content = await answer.json();
  } catch {
    if (request === lastRequest) fail("The service does not respond. Is it still running?", true);
    return;
  }
  if (request !== lastRequest) return;
  if (!answer.ok) return fail(content.error, RETRIED.has(answer.status));
  show(content, performance.now() - begin);
}

// an answer that takes long replaces an earlier one by the pictures and a line about the progress
function wait(request) {
  pending = request;
  $("results").classList.add("waiting");
  for (const [after, text] of PATIENCE) {
    setTimeout(() => {
      if (pending !== request) return;
      if ($("progress").hidden) {
        clear();
        $("progress").hidden = false;
        $("results").replaceChildren(...files.map((file, number) => {
          const block = element("div", "result");
          block.append(picture(number, file.name));
          return block;
        }));
        reveal();
      }
      $("progress").textContent = text;
    }, after);
  }
}

function clear() {
  for (const id of ["error", "retry", "progress", "empty"]) $(id).hidden = true;
  for (const id of ["scope", "time"]) $(id).textContent = "";
  $("results").classList.remove("waiting");
  $("results").replaceChildren();
}

function fail(message, canRetry = false) {
  pending = 0;
  clear();
  $("error").textContent = shown(message.charAt(0).toUpperCase() + message.slice(1));
  $("error").hidden = false;
  $("retry").hidden = !canRetry || !files.length;
  $("answer").scrollIntoView({ block: "nearest" });
}

function picture(number, name) {
  const image = element("img");
  Object.assign(image, { src: pictures[number], alt: `${truth ? "Example" : "Your image"} ${shown(name)}` });
  return image;
}

function show(content, milliseconds) {
  pending = 0;
  clear();
  $("results").replaceChildren(...content.results.map((result, number) => {
    const block = element("div", "result");
    const image = picture(number, result.name);
    const known = truth && truth.domain.name === content.domain ? truth.name : null;
    const list = element("ol");
    list.append(...result.predictions.map(bar));
    block.append(image, known === null ? element("p", "name", result.name) : trueClass(known, result.predictions[0]));
    const doubt = doubtAbout(result.predictions);
    if (doubt) block.append(element("p", "unsure", doubt));
    block.append(list);
    return block;
  }));
  $("scope").textContent = shown(
    `The answer is always one of the ${chosen().classes.length} classes of ${content.domain}, whatever the image shows.`
  );
  $("time").textContent = shown(
    `${content.domain}: ${content.milliseconds.toFixed(1)} ms in the service, ${milliseconds.toFixed(0)} ms round trip`
  );
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
$("retry").addEventListener("click", classify);
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
