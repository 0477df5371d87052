#!/usr/bin/env bash
# Copies what tables are made from, and the records of how it came about, to a directory that can be committed:
# record_results.sh ARTIFACTS REPORTS DIRECTORY. Weights, samples and scores stay where they are.
set -euo pipefail
artifacts=$1 reports=$2 directory=$3

test -f "$reports/metrics.csv" || { echo "error: $reports/metrics.csv does not exist; run make repro first" >&2; exit 1; }
mkdir -p "$(dirname "$directory")"
new=$(mktemp -d "$directory.XXXXXX.partial")
trap 'rm -rf "$new"' EXIT
cp params.yaml "$reports/metrics.csv" "$new"
# Stages that were run one by one leave none.
if [ -f dvc.lock ]; then cp dvc.lock "$new"; fi
cp -R "$artifacts/evals" "$artifacts/models" "$new"
mkdir "$new/prompts"
cp "$artifacts"/prompts/{unseen,ood}.parquet "$artifacts/prompts/provenance.json" "$new/prompts"
(cd "$artifacts" && find adapters -type f ! -name '*.safetensors' -print0 | tar --create --null --files-from -) | tar --extract --directory "$new"
# What is there by hand, such as a README, stays.
if [ -d "$directory" ]; then
  find "$directory" -maxdepth 1 -name '*.md' -exec cp {} "$new" \;
  rm -rf "$directory"
fi
chmod 755 "$new"
mv "$new" "$directory"
trap - EXIT
echo "$directory: $(du -sh "$directory" | cut -f1); make tables RESULTS=$directory makes its report"
