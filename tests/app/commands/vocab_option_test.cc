// `--vocab` on the command line: a catalogue model for the ids of another tokenizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "tests/app/commands/small_run.h"

namespace foretrain {
namespace {

using testing::HasSubstr;

// A shard of llm.c with ids up to 599.
std::string Shard() {
  constexpr std::int32_t kTokens = 500;
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520, header[1] = 1, header[2] = kTokens;
  std::string bytes(reinterpret_cast<const char*>(header.data()), 1024);
  for (std::int32_t i = 0; i < kTokens; ++i) {
    const auto token = static_cast<std::uint16_t>(i == 3 ? 599 : i % 7);
    bytes.append(reinterpret_cast<const char*>(&token), 2);
  }
  return bytes;
}

// gpt-10m shares its table of tokens with the head: 344 more rows of 64.
TEST(VocabOption, FitsAModelToATokenizer) {
  const TemporaryFolder folder;
  const std::string train = SmallTraining(folder) + "--json --steps 1 ";
  const auto parameters = [&](const std::string& command) -> std::int64_t {
    const ProgramEnd end = RunForetrain(folder.path(), command);
    EXPECT_EQ(end.code, 0) << end.errors;
    const std::string_view lines = Trim(end.output);
    const auto summary = nlohmann::json::parse(lines.substr(lines.rfind('\n') + 1), nullptr, false);
    return summary.is_object() ? summary.at("parameters").get<std::int64_t>() : 0;
  };
  const std::int64_t of_bytes = parameters(train);
  folder.Write("text.txt", Shard());
  const ProgramEnd refused = RunForetrain(folder.path(), train);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("token 3 is 599, outside the model's vocabulary of 256; "
                                        "use the model that the data was made for, or a larger "
                                        "--vocab"));
  EXPECT_EQ(parameters(train + "--vocab 600"), of_bytes + 344 * 64);
  const ProgramEnd wrong = RunForetrain(folder.path(), train + "--vocab -1");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.errors, HasSubstr("--vocab"));
}

}  // namespace
}  // namespace foretrain
