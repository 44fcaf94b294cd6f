#!/usr/bin/env bash
# Cut the book's font from node_modules to the letters and weights that the pages use. Needs `npm install
# --ignore-scripts` and, in .venv, `pip install brotli`. Other letters come from the reader's own fonts.
set -euo pipefail
cd "$(dirname "$0")/../.."

literata=node_modules/@fontsource-variable/literata/files/literata-latin-wght
subset=(--unicodes=20-7E "--text=äöüÄÖÜßéèáàçñ§°²³·×½«»–—‘’“”„…−" --no-hinting --desubroutinize --flavor=woff2)
subset+=(--layout-features=kern,liga,calt,ccmp,mark,mkmk)

cut() { # the style, its weights, what the file is called
  .venv/bin/python -m fontTools.varLib.instancer "$literata-$1.woff2" "wght=$2" --output "_build/$1.ttf"
  .venv/bin/python -m fontTools.subset "_build/$1.ttf" "${subset[@]}" "--output-file=book/_static/fonts/$3.woff2"
}

mkdir -p _build
cut normal 400:650 literata
cut italic 400 literata-italic
