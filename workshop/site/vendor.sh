#!/bin/sh
# Copy the browser libraries that package.json pins into book/_static/vendor and tests/site/vendor, and cut the book's
# fonts to the letters and weights that the pages use; other letters come from the reader's own fonts. Building the book
# needs none of this: the copies are committed. Run it after a change of a version, in .venv with `pip install brotli`.
set -eu
cd "$(dirname "$0")/../.."
npm install --ignore-scripts --no-package-lock --no-audit --no-fund
modules=node_modules vendor=book/_static/vendor
rm -rf "$vendor"
mkdir -p "$vendor/onnxruntime" _build
cp "$modules"/vega/build/vega.min.js "$modules"/vega-lite/build/vega-lite.min.js \
   "$modules"/vega-embed/build/vega-embed.min.js "$vendor"
runtime=$modules/onnxruntime-web/dist
cp "$runtime/ort.wasm.min.js" "$runtime/ort-wasm-simd-threaded.mjs" "$vendor/onnxruntime"
# Kept compressed: 11 MB become 3 MB, and the browser unpacks it.
gzip -9nc "$runtime/ort-wasm-simd-threaded.wasm" > "$vendor/onnxruntime/ort-wasm-simd-threaded.wasm.gz"

# A source map that is not there makes developer tools report a failed request.
find "$vendor" -name '*js' -exec perl -0pi -e 's|\n?//# sourceMappingURL=\S+||g; s|\s*\z|\n|' {} +
cp "$modules/axe-core/axe.min.js" tests/site/vendor
cp "$modules/axe-core/LICENSE" tests/site/vendor/LICENSE-axe.txt

# The minified files hold parts of all packages that the four depend on.
field() { sed -n "s/^  \"$1\": \"\(.*\)\".*/\1/p" "$package/package.json"; }
npm ls --omit=dev --all --parseable | tail -n +2 | sort -u | while read -r package; do
  printf '%s %s (%s)\n\n' "${package##*/node_modules/}" "$(field version)" "$(field license)"
  case "$package" in
    */onnxruntime-*) sed 's/\(Copyright (c)\).*/\1 Microsoft Corporation/' LICENSE ;; # it is ours, too
    *) find "$package" -maxdepth 1 -type f -iname 'licen[cs]e*' -exec cat {} + |
      awk '{ print } END { if (!NR) print "(no licence file)" }' ;;
  esac
  printf '\n%080d\n\n' 0 | tr 0 =
done | tr -d '\r' > "$vendor/LICENSES.txt"
cat >> "$vendor/LICENSES.txt" <<'NOTICE'
The WebAssembly file of onnxruntime-web also holds parts of other projects under permissive licences. They are listed in
ThirdPartyNotices.txt of its repository, https://github.com/microsoft/onnxruntime.
NOTICE
(cd "$vendor" && find . -type f ! -name SHA256SUMS | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS)

subset() { # in a style, at some weights
  .venv/bin/python -m fontTools.varLib.instancer \
    "$modules/@fontsource-variable/literata/files/literata-latin-wght-$1.woff2" "wght=$2" --output _build/font.ttf
  .venv/bin/python -m fontTools.subset _build/font.ttf --unicodes=20-7E --text='äöüÄÖÜßéèáàçñ§°²³·×½«»–—‘’“”„…−' \
    --no-hinting --desubroutinize --flavor=woff2 --layout-features=kern,liga,calt,ccmp,mark,mkmk --output-file="$3"
}
subset normal 400:650 book/_static/fonts/literata.woff2
subset italic 400 book/_static/fonts/literata-italic.woff2

# The icons that the pages use, at the places that book/_static/site.css names: give it those of a new one, too.
theirs=.venv/lib/python3*/site-packages/pydata_sphinx_theme/theme/*/static/vendor/fontawesome/webfonts
icons() {
  .venv/bin/python -m fontTools.subset $theirs/"fa-$1.ttf" \
    --unicodes="$(grep -A2 "icons-$2.woff" book/_static/site.css | sed -n 's/.*range: \(.*\);/\1/p' | tr -d ' ')" \
    --no-hinting --notdef-outline --name-IDs='*' --flavor=woff --output-file="book/_static/fonts/icons-$2.woff"
}
icons solid-900 solid; icons regular-400 regular; icons brands-400 brands

# Formulas: letters, and signs that grow by the font's table of variants. test_formulas.py names a sign that is missing.
.venv/bin/python -m fontTools.subset "$modules/@fontsource/stix-two-math/files/stix-two-math-latin-400-normal.woff2" \
  --unicodes=20-7E,391-3A9,3B1-3C9,3D5,3F5,1D434-1D467,1D6E2-1D6FA,1D6FC-1D71B,210E \
  --text='§°²³±×·÷‖†…′″ℓℕℝℤ←↑→↓↔↦⇒⇔∀∂∃∅∇∈∉∏∑−∗∘√∝∞∣∥∧∨∩∪∫∼≈≔≠≡≤≥≪≫⊂⊆⊕⊗⊙⊤⊥⋅⋮⋯⋱⌈⌉⌊⌋⟨⟩⏞⏟ˆ˜ˉ˙' \
  --no-hinting --desubroutinize --flavor=woff --layout-features=ssty,dtls,flac,kern \
  --output-file=book/_static/fonts/stix-two-math.woff
.venv/bin/python - <<'ROOTS'
# A browser keeps room beside a root for the font's widest one: make the tall ones as wide as the first.
from fontTools.ttLib import TTFont

path = "book/_static/fonts/stix-two-math.woff"
font = TTFont(path)
root, variants = font.getBestCmap()[0x221A], font["MATH"].table.MathVariants
grown = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(root)]
names = [one.VariantGlyph for one in grown.MathGlyphVariantRecord] + [one.glyph for one in grown.GlyphAssembly.PartRecords]
for name in {*names} - {root}:
    width, left = font["hmtx"][name]
    narrower = font["hmtx"][root][0] / width
    font["glyf"][name].coordinates.scale((narrower, 1))
    font["glyf"][name].recalcBounds(font["glyf"])
    font["hmtx"][name] = font["hmtx"][root][0], round(left * narrower)
font.save(path)
ROOTS
cp "$modules/@fontsource/stix-two-math/LICENSE" book/_static/fonts/LICENSE-stix-two-math.txt
