// A file of tokens, or the index of a pair: if it is accepted, every id is in the vocabulary.
#include <string>
#include <vector>

#include "base/checked.h"
#include "runtime/data/token_data.h"
#include "runtime/data/token_files.h"
#include "tests/base/fault_file_system.h"
#include "tests/fuzz/fuzz.h"

namespace foretrain {
namespace {

// The index with the tokens that it counts, all 1, of 1, 2 or 4 bytes, whichever it says.
void OpenPair(const std::string& index) {
  for (const bool documents : {false, true}) {
    for (const std::size_t bytes : {12U, 24U, 48U}) {
      FaultFileSystem files;
      files.Put("t.idx", index);
      files.Put("t.bin", std::string(bytes, '\1'));
      const auto opened = OpenTokenFile(files, "t.bin", documents);
      if (!opened.has_value()) {
        FT_CHECK(opened.error().message.find("t.") != std::string::npos);
        continue;
      }
      FT_CHECK(opened->tokens * opened->width == static_cast<std::int64_t>(bytes));
      FT_CHECK(opened->documents.has_value() == documents);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(opened->tokens));
      FT_CHECK(opened->Read(0, ids, 0x01010102).has_value());
      FT_CHECK(opened->Read(0, ids, 1).has_value() == ids.empty());
      FT_CHECK(CheckTokens(*opened, 0x01010102).has_value());
    }
  }
}

}  // namespace
}  // namespace foretrain

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foretrain;
  constexpr std::int64_t kVocab = 300;
  Plan plan;
  plan.sequence = 4;
  plan.global_batch = 2;
  plan.micro_batch = 1;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  OpenPair(bytes);
  const auto tokens = TokenData::FromText(bytes, "fuzz", kVocab, plan);
  if (!tokens.has_value()) {
    FT_CHECK(!tokens.error().message.empty());
    return 0;
  }
  std::vector<std::int32_t> ids(4), targets(4);
  for (std::int64_t step = 0; step < 3; ++step) {
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      FT_CHECK((*tokens)->Fill({step, 0, micro_batch, 0}, ids, targets).has_value());
      for (const std::int32_t id : ids) FT_CHECK(id >= 0 && id < kVocab);
      for (const std::int32_t id : targets) FT_CHECK(id >= 0 && id < kVocab);
    }
  }
  return 0;
}
