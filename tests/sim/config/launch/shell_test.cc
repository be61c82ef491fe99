// The part of the shell's language that launch scripts use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "sim/config/launch/syntax/launch_text.h"
#include "sim/config/launch/syntax/shell_values.h"

namespace foretrain {
namespace {

// Keys and values that the script's command gives.
std::map<std::string, std::string> OptionsOf(const std::string& script) {
  const auto text = ReadLaunchText(script, LaunchSyntax::kShell, "run.sh");
  EXPECT_TRUE(text.has_value()) << text.error().message;
  std::map<std::string, std::string> options;
  if (!text.has_value()) return options;
  for (const LaunchItem& item : text->entries) {
    options[item.key] = item.unknown.empty() ? item.value : "unknown";
  }
  return options;
}

using Options = std::map<std::string, std::string>;

TEST(Shell, ExpandsVariablesDefaultsAndArrays) {
  EXPECT_EQ(OptionsOf("A=1; B=\"${A}2\"; C=${UNSET:-\"x y\"}\nL=(--b $B)\nL+=(--c \"$C\")\n"
                      "python t.py --a $A ${L[@]} \"${L[@]}\" --d='$A' # --e 5\n"),
            (Options{{"a", "1"}, {"b", "12"}, {"c", "x y"}, {"d", "$A"}}));
}

TEST(Shell, JoinsLinesAndEvaluatesIntegers) {
  EXPECT_EQ(OptionsOf("N=3\npython t.py --a \\\n  $((N * (2 + 4) / 2 - 1)) \\\n --b $(($N % 2))\n"),
            (Options{{"a", "8"}, {"b", "1"}}));
  EXPECT_FALSE(EvaluateArithmetic("1 / 0").has_value());
  EXPECT_FALSE(EvaluateArithmetic("9223372036854775807 + 1").has_value());
  EXPECT_FALSE(EvaluateArithmetic("2 +").has_value());
}

TEST(Shell, TakesTheBranchThatTheFileDecides) {
  const std::string command = "python t.py --a $A\n";
  EXPECT_EQ(OptionsOf("S=7b\nif [ $S == 7b ]; then A=1; else A=2; fi\n" + command),
            (Options{{"a", "1"}}));
  EXPECT_EQ(
      OptionsOf("S=8\nif [[ $S -gt 8 ]]; then A=1\nelif [[ -z $B ]]; then A=3\nfi\n" + command),
      (Options{{"a", "3"}}));
  EXPECT_EQ(OptionsOf("S=b\ncase $S in\n a) A=1 ;;\n b|c) A=2 ;;\n *) A=3 ;;\nesac\n" + command),
            (Options{{"a", "2"}}));
  EXPECT_EQ(OptionsOf("A=1\n[ -z \"$B\" ] && A=2\n" + command), (Options{{"a", "2"}}));
  // A file of the machine decides.
  EXPECT_EQ(OptionsOf("A=1\nif [ -f x ]; then A=2; fi\n" + command), (Options{{"a", "unknown"}}));
}

TEST(Shell, MarksWhatOnlyARunWouldTell) {
  EXPECT_EQ(
      OptionsOf("python t.py --a $(nproc) --b `id` --c $HOME --d ${X%.*} --e 1\n"),
      (Options{
          {"a", "unknown"}, {"b", "unknown"}, {"c", "unknown"}, {"d", "unknown"}, {"e", "1"}}));
}

TEST(Shell, FindsTheTrainersCommand) {
  EXPECT_EQ(
      OptionsOf("python prepare.py --in x\nCMD=\"torchrun --nproc-per-node 4 t.py --a 1 --b\"\n"
                "echo $CMD --c\neval $CMD 2>&1 | tee log\n"),
      (Options{{"a", "1"}, {"b", "true"}, {"launcher.nproc_per_node", "4"}}));
  EXPECT_EQ(OptionsOf("#SBATCH --nodes=4\nsrun -N 2 bash -c \"python t.py --a -1 --b 2 3\"\n"),
            (Options{{"a", "-1"}, {"b", "2 3"}, {"launcher.nodes", "2"}, {"sbatch.nodes", "4"}}));
  EXPECT_EQ(OptionsOf("--a 1\n--b 2\n"), (Options{{"a", "1"}, {"b", "2"}}));
}

TEST(Shell, SkipsHereDocuments) {
  EXPECT_EQ(
      OptionsOf("cat > x.py <<'EOF'\npython t.py --a 1 --b 2 'open\nEOF\npython t.py --c 3\n"),
      (Options{{"c", "3"}}));
}

}  // namespace
}  // namespace foretrain
