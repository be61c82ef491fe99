// Command lines of each command with options and values at random: the program ends by itself with
// one of its exit codes and, if that is not 0, one sentence. FORETRAIN_COMMAND_LINES sets their
// number. Each runs in a child of this process, which spares starting the program. The folders of
// the values lie within the test's own.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <regex>
#include <set>

#include "app/cli/command.h"
#include "app/run_app.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

using testing::AnyOf;
using testing::StartsWith;

// A child that takes longer is ended: it may rightly be at work.
constexpr unsigned kMaxSeconds = 10;

int Lines() {
  const char* const asked = std::getenv("FORETRAIN_COMMAND_LINES");
  return asked != nullptr ? std::atoi(asked) : 300;
}

// Exit codes that docs and --help name.
bool IsExitCode(int code) {
  for (const Exit exit : {Exit::kDone, Exit::kNo, Exit::kBadInput, Exit::kFault}) {
    if (code == static_cast<int>(exit)) return true;
  }
  return false;
}

// Runs the program in a child in `folder`. The code is 128 + signal if a signal ended it.
ProgramEnd RunLine(const TemporaryFolder& folder, const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  if (child == 0) {
    const bool there = chdir((folder.path() + "/a/b").c_str()) == 0;
    const int output = open("../../stdout", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const int errors = open("../../stderr", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const int input = open("/dev/null", O_RDONLY);
    if (!there || dup2(output, 1) < 0 || dup2(errors, 2) < 0 || dup2(input, 0) < 0) _exit(99);
    alarm(kMaxSeconds);
    const rlimit core{0, 0};
    static_cast<void>(setrlimit(RLIMIT_CORE, &core));
    std::vector<char*> argv;
    std::vector<std::string> texts = arguments;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    const int code = RunApp(static_cast<int>(texts.size()), argv.data());
    std::fflush(stdout);
    _exit(code);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), folder.Read("stdout"),
          folder.Read("stderr")};
}

// The words of the help that begin with --.
std::vector<std::string> OptionsOf(const TemporaryFolder& folder, const std::string& command) {
  const std::string help = RunLine(folder, {"foretrain", command, "--help", "all"}).output;
  const std::regex option("--[a-z][a-z0-9-]+");
  std::set<std::string> options;
  for (std::sregex_iterator at(help.begin(), help.end(), option), end; at != end; ++at) {
    options.insert(at->str());
  }
  options.erase("--help");
  return {options.begin(), options.end()};
}

// A command with what it needs to come far, so that the options after it are used.
struct Base {
  const char* command;
  std::vector<std::string> arguments;
};
const std::vector<Base>& Bases() {
  const std::vector<std::string> plan = {"--model", "gpt-10m", "--cluster", "1x2xa100-80gb-sxm"};
  static const std::vector<Base> bases = {
      {"models", {}},
      {"clusters", {}},
      {"presets", {}},
      {"devices", {}},
      {"plan", plan},
      {"predict", plan},
      {"fit", plan},
      {"train",
       {"--model", "gpt-10m", "--layers", "1", "--sequence", "16", "--steps", "1", "--data",
        "text.txt"}},
      {"analyze", {"--store", "s.db"}},
      {"compare", {"--store", "s.db"}},
      {"runs", {"--store", "s.db"}},
      {"sql", {"s.db", "SELECT * FROM v_run"}},
      {"export", {"--store", "s.db", "--out", "o.json"}},
      {"import", {"trace.json"}},
      {"validate", {"rows.csv"}},
      {"tokenize", {"--tokenizer", "tokenizer.json", "--out", "t.bin", "text.txt"}},
      {"view", {"s.db", "--screenshot", "a.png"}},
  };
  return bases;
}

constexpr const char* kValues[] = {"",
                                   "0",
                                   "-1",
                                   "1",
                                   "2",
                                   "8",
                                   "1000000",
                                   "-0",
                                   "1.5",
                                   "1e308",
                                   "nan",
                                   "inf",
                                   "0x10",
                                   "1,2,4",
                                   "1..8",
                                   "8..1",
                                   "auto",
                                   "local",
                                   "gpt2-124m",
                                   "gpt-10m",
                                   "80GiB",
                                   "9EiB",
                                   "-5GB",
                                   "true",
                                   "full",
                                   "none",
                                   "bf16",
                                   "fp8",
                                   "s.db",
                                   "text.txt",
                                   "o.json",
                                   "nothere",
                                   ".",
                                   "..",
                                   "/",
                                   "../x",
                                   "folder",
                                   "rows.csv",
                                   "%s%n%x",
                                   "'; DROP",
                                   "\xff\xfe",
                                   "\x1b[2J",
                                   "a\nb",
                                   "1x2xh100",
                                   "--json",
                                   "=",
                                   "~",
                                   "$HOME",
                                   "99999999999999999999",
                                   "1ms..2ms",
                                   "1x0xa100-80gb-sxm",
                                   "tp-cp-ep-dp-pp",
                                   "zb-v",
                                   "dualpipe"};

std::vector<std::string> RandomLine(std::mt19937_64& random,
                                    const std::vector<std::vector<std::string>>& options) {
  const std::size_t which = random() % Bases().size();
  const Base& base = Bases()[which];
  std::vector<std::string> line = {"foretrain", base.command};
  if (random() % 8 != 0) line.insert(line.end(), base.arguments.begin(), base.arguments.end());
  for (std::uint64_t left = 1 + random() % 4; left > 0; --left) {
    const std::vector<std::string>& known = options[which];
    const std::string option = known.empty() ? "--json" : known[random() % known.size()];
    const std::string value =
        random() % 64 == 0 ? std::string(100'000, 'x') : kValues[random() % std::size(kValues)];
    switch (random() % 8) {
      case 0:
        line.push_back(option);
        break;
      case 1:
        line.push_back(value);
        break;
      case 2:
        line.push_back(option + "=" + value);
        break;
      default:
        line.push_back(option);
        line.push_back(value);
    }
  }
  if (random() % 16 == 0)
    line.erase(line.begin() + 1 + static_cast<std::ptrdiff_t>(random() % (line.size() - 1)));
  return line;
}

std::string TextOf(const std::vector<std::string>& line) {
  std::string text;
  for (const std::string& word : line) text += "'" + word.substr(0, 200) + "' ";
  return text;
}

TEST(RandomCommandLines, EndWithAnExitCodeAndASentence) {
  const TemporaryFolder folder;
  ASSERT_EQ(RunCommand(folder.path(), "mkdir -p a/b/folder").code, 0);
  folder.Write("a/b/text.txt", std::string(1 << 14, 'x'));
  folder.Write("a/b/rows.csv", "id,source\n1,x\n");
  folder.Write("a/b/trace.json", R"({"traceEvents":[{"ph":"X","ts":1,"dur":2,"name":"k"}]})");
  folder.Write("a/b/tokenizer.json", "{}");
  ASSERT_EQ(RunLine(folder, {"foretrain", "predict", "--model", "gpt-10m", "--cluster",
                             "1x2xa100-80gb-sxm", "--store", "s.db"})
                .code,
            0);
  std::vector<std::vector<std::string>> options;
  for (const Base& base : Bases()) options.push_back(OptionsOf(folder, base.command));
  std::mt19937_64 random(71);
  std::map<int, int> ends;
  for (int i = 0; i < Lines(); ++i) {
    const std::vector<std::string> line = RandomLine(random, options);
    const ProgramEnd end = RunLine(folder, line);
    ++ends[end.code];
    if (end.code == 128 + SIGALRM) continue;
    EXPECT_TRUE(IsExitCode(end.code)) << end.code << ": " << TextOf(line) << end.errors;
    EXPECT_LT(end.errors.size(), 10'000U) << TextOf(line);
    EXPECT_FALSE(std::regex_search(end.errors, std::regex("[\\x01-\\x08\\x0b\\x0e-\\x1f]")))
        << TextOf(line) << end.errors;
    if (end.code >= static_cast<int>(Exit::kBadInput)) {
      EXPECT_THAT(end.errors, testing::ContainsRegex("(^|\n)foretrain: ")) << TextOf(line);
      EXPECT_EQ(end.errors.find("a fault inside"), std::string::npos) << TextOf(line) << end.errors;
    }
    if (HasFailure()) break;
  }
  for (const auto& [code, count] : ends) std::printf("exit %d: %d\n", code, count);
  EXPECT_GT(ends[0], 0);
  EXPECT_LT(ends[128 + SIGALRM], std::max(1, Lines() / 5));
}

}  // namespace
}  // namespace foretrain
