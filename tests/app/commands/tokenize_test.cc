// `foretrain tokenize`, and training on what it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/app/run_binary.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string Llama3() { return TestDataPath("tokenizers/llama3.json"); }

ProgramEnd TokenizeOrSkip(const TemporaryFolder& folder, const std::string& arguments) {
  return RunForetrain(folder.path(), "tokenize --json --tokenizer " + Llama3() + " " + arguments);
}

TEST(Tokenize, WritesDocumentsWithTheirEndsAndTrainsOnThem) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "Document " + std::to_string(i) + " says so.\n";
  folder.Write("a.txt", text);
  folder.Write("b.jsonl", "{\"text\":\"one\"}\n\n{\"text\":\"two\"}\n");
  const ProgramEnd end = TokenizeOrSkip(folder, "--out t.bin a.txt b.jsonl");
  if (end.errors.find("no PCRE2") != std::string::npos) {
    GTEST_SKIP() << "needs libpcre2-dev, which tools/test installs: " << end.errors;
  }
  ASSERT_EQ(end.code, 0) << end.errors;
  const json summary = json::parse(end.output);
  EXPECT_EQ(summary.at("documents"), 3);
  const auto tokens = summary.at("tokens").get<std::int64_t>();
  EXPECT_EQ(std::ssize(folder.Read("t.bin")), 1024 + 2 * tokens);
  const auto without =
      json::parse(TokenizeOrSkip(folder, "--out n.bin --end none a.txt b.jsonl").output);
  EXPECT_EQ(without.at("tokens"), tokens - 3);

  const std::string train =
      "train --model gpt2-124m --layers 1 --hidden 64 --heads 2 --ranks 1 --sequence 32 "
      "--global-batch 2 --steps 2 --json --capture off ";
  const auto loss = [&](const std::string& data) {
    const ProgramEnd run = RunForetrain(folder.path(), train + data);
    EXPECT_EQ(run.code, 0) << run.errors;
    return run.output.substr(0, run.output.find("step_time_s"));
  };
  folder.Write("b.txt", text);
  ASSERT_EQ(TokenizeOrSkip(folder, "--out b.bin --end none b.txt").code, 0);
  EXPECT_EQ(loss("--data b.bin"), loss("--data b.txt --tokenizer " + Llama3()));
  // Megatron's pair of files has the same tokens and no header, and a folder holds its files.
  RunCommand(folder.path(), "mkdir texts");
  folder.Write("texts/1.txt", text);
  ASSERT_EQ(TokenizeOrSkip(folder, "--out m.bin --format megatron --end none texts").code, 0);
  EXPECT_EQ(folder.Read("m.bin"), folder.Read("b.bin").substr(1024));
  EXPECT_EQ(loss("--data b.bin"), loss("--data m"));
  EXPECT_NE(loss("--data b.bin"), loss("--data b.bin --shuffle"));
  EXPECT_EQ(loss("--data b.bin:1,m.bin:1"), loss("--data m.bin:3,b.bin:3"));
  EXPECT_THAT(RunForetrain(folder.path(), train + "--data b.bin --tokenizer " + Llama3()).errors,
              HasSubstr("has tokens already; leave --tokenizer out"));
}

TEST(Tokenize, RefusesWithASentence) {
  const TemporaryFolder folder;
  folder.Write("a.txt", "text");
  folder.Write("bad.jsonl", "{\"text\":\"one\"}\n{\"body\":\"two\"}\n");
  const auto refused = [&](const std::string& arguments, const char* says) {
    const ProgramEnd end = TokenizeOrSkip(folder, arguments);
    if (end.errors.find("no PCRE2") != std::string::npos) return;
    EXPECT_EQ(end.code, 2) << arguments;
    EXPECT_THAT(end.errors, HasSubstr(says));
  };
  refused("a.txt", "give texts, --tokenizer PATH and --out FILE");
  refused("--out t.bin missing.txt", "missing.txt");
  refused("--out t.bin bad.jsonl", "bad.jsonl, line 2: has no text called \"text\"");
  refused("--out t.bin --end nope a.txt", "--end: \"nope\" is no token");
}

}  // namespace
}  // namespace foretrain
