// The texts of a checkpoint behind a right checksum, as a damaged or hostile file may have it: what
// is accepted writes and reads back as itself, and its pieces lie in the file.
#include <fmt/format.h>

#include <string>

#include "base/io/crc32c.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  std::string rest(reinterpret_cast<const char*>(data), size);
  // The checksum leaves out a last newline.
  if (rest.ends_with('\n')) rest.pop_back();
  const std::string text = fmt::format("{{\"crc32c\":\"{:08x}\",", Crc32c(rest)) + rest;
  if (const auto manifest = ParseManifest(text, "fuzz"); manifest.has_value()) {
    const std::string written = ManifestText(*manifest);
    const auto again = ParseManifest(written, "written");
    FT_CHECK(again.has_value() && ManifestText(*again) == written);
  }
  if (const auto file = ParseRankFile(text, "fuzz"); file.has_value()) {
    for (const SavedPiece& saved : file->pieces) {
      FT_CHECK(saved.begin >= file->header_bytes && saved.bytes() > 0 &&
               saved.begin + saved.bytes() <= file->bytes);
    }
    const auto again = ParseRankFile(RankFileText(*file), "written");
    FT_CHECK(again.has_value() && again->pieces.size() == file->pieces.size());
    FT_CHECK(!TensorsHeader(file->pieces).empty());
  }
  return 0;
}
