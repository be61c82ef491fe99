// Runs a fuzz target on the files of folders, for builds without libFuzzer: seeds, past findings,
// and mutants of them. FORETRAIN_MUTANTS sets the number of mutants, 0 by default; they are the
// same ones at each run. FORETRAIN_MUTANT_FILE names a file for the mutant that runs: after a crash
// it holds the culprit.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/units.h"
#include "tests/fuzz/fuzz.h"

namespace {

// Numbers and marks at which parsers change their minds.
constexpr const char* kTokens[] = {"0",    "-1",   "1e308", "9223372036854775807",
                                   "\"",   "{",    "}",     "[",
                                   "]",    ",",    ":",     "null",
                                   "true", "\\u0", "\xff",  "\n"};

void Run(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

// One to eight changes: a bit, a byte, a cut, a part that is repeated, dropped or taken from
// another seed, or a token.
std::string Mutated(std::string text, const std::string& other, std::mt19937_64& random) {
  for (std::uint64_t left = 1 + random() % 8; left > 0; --left) {
    const std::size_t at = random() % (text.size() + 1);
    const std::size_t size = std::min<std::size_t>(random() % 64, text.size() - at);
    switch (random() % 7) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 2:
        if (random() % 4 == 0) text.resize(at);
        break;
      case 3:
        text.insert(at, text.substr(at, size));
        break;
      case 4:
        text.erase(at, size);
        break;
      case 5:
        text.insert(at, other.substr(random() % (other.size() + 1), random() % 64));
        break;
      default:
        text.replace(at, std::min<std::size_t>(size, 8), kTokens[random() % std::size(kTokens)]);
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  foretrain::PosixFileSystem files;
  std::vector<std::string> seeds;
  for (const std::string& path : paths) {
    auto text = foretrain::ReadFile(files, path, foretrain::kMiB);
    if (!text.has_value()) {
      std::fprintf(stderr, "%s\n", text.error().message.c_str());
      return 1;
    }
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // the last line names the culprit of a crash
    Run(*text);
    seeds.push_back(*std::move(text));
  }
  if (paths.empty()) return 1;
  const char* const asked = std::getenv("FORETRAIN_MUTANTS");
  const int mutants = asked != nullptr ? std::atoi(asked) : 0;
  const char* const kept = std::getenv("FORETRAIN_MUTANT_FILE");
  std::mt19937_64 random(1);
  for (int i = 0; i < mutants; ++i) {
    std::printf("\rmutant %d", i);
    std::fflush(stdout);
    const std::string& seed = seeds[static_cast<std::size_t>(i) % seeds.size()];
    const std::string mutant = Mutated(seed, seeds[random() % seeds.size()], random);
    if (kept != nullptr) std::ofstream(kept, std::ios::binary) << mutant;
    Run(mutant);
  }
  std::printf("\n%zu inputs, %d mutants\n", paths.size(), mutants);
  return 0;
}
