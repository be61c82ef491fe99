#include "app/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/report/comparison_report.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Span At(std::int64_t start_ns, std::int64_t end_ns, Pass pass, OpClass op_class = OpClass::kGemm) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .op = PackId({.pass = pass}, 0),
          .ready_ns = start_ns,
          .queue = op_class == OpClass::kGemm ? Queue::kCompute : Queue::kReduce,
          .op_class = op_class};
}

// A step of 100 ns from 1000 on, drawn in ten columns of 10 ns.
std::string LineOf(std::vector<Span> spans) {
  Timeline timeline;
  timeline.world = 1;
  timeline.spans = std::move(spans);
  timeline.steps = {{1000, 1100, 7, 0}, {1100, 1200, 8, 0}};
  const std::string text = TimelineText(timeline, 7, 10);
  return text.substr(text.find('|'), 12);
}

TEST(TimelineText, ShowsTheLargestPartOfEachColumn) {
  EXPECT_EQ(LineOf({}), "|..........|");
  // F takes 25 ns, of which 5 lie in the third column together with 2 of W and 3 of R. B takes the
  // last 40.
  EXPECT_EQ(LineOf({At(1000, 1025, Pass::kForward), At(1025, 1027, Pass::kBackwardWeight),
                    At(1027, 1030, Pass::kRecompute), At(1060, 1100, Pass::kBackward)}),
            "|FFF...BBBB|");
  // Four of ten ns are less than half.
  EXPECT_EQ(LineOf({At(1010, 1014, Pass::kForward)}), "|..........|");
  EXPECT_EQ(LineOf({At(1010, 1015, Pass::kForward)}), "|.F........|");
}

TEST(TimelineText, ShowsAsManyLettersAsShortPassesTakeTogether) {
  // Four of each ten ns: 4 columns of 10. Carried over: 4, 8 -> F, 2, 6 -> F, 0, 4, 8 -> F, 2, 6 ->
  // F, 0.
  std::vector<Span> spans;
  for (int at = 1000; at < 1100; at += 10) spans.push_back(At(at, at + 4, Pass::kForward));
  EXPECT_EQ(LineOf(spans), "|.F.F..F.F.|");
}

TEST(TimelineText, ShowsCommunicationOnlyWhereItIsAlone) {
  // 1000 to 1030; compute covers half of the second column and 4 of 10 ns of the third.
  EXPECT_EQ(LineOf({At(1000, 1030, Pass::kUpdate, OpClass::kDpComm), At(1010, 1015, Pass::kForward),
                    At(1020, 1024, Pass::kForward)}),
            "|-F-.......|");
  // Waiting for peers does not count as communication: ready at 1020.
  Span waits = At(1000, 1030, Pass::kUpdate, OpClass::kDpComm);
  waits.ready_ns = 1020;
  EXPECT_EQ(LineOf({waits}), "|..-.......|");
  waits.ready_ns = 1040;  // never alone
  EXPECT_EQ(LineOf({waits}), "|..........|");
}

TEST(TimelineText, CutsSpansToTheStep) {
  EXPECT_EQ(LineOf({At(900, 1010, Pass::kForward), At(1090, 1300, Pass::kBackward),
                    At(800, 900, Pass::kForward), At(1150, 1170, Pass::kForward)}),
            "|F........B|");
}

// Error text of a step that was forecast to take 1 s and took 1.2 s.
std::string ErrorText(double drift) {
  ComparisonView view;
  view.predicted.time_s = 1;
  view.measured.time_s = 1.2;
  view.machine_drift = drift;
  const std::string text = ComparisonText(view);
  return text.substr(text.find("step time error"));
}

TEST(ComparisonText, SaysWhatTheMachineItselfExplains) {
  EXPECT_EQ(ErrorText(0), "step time error         +20.0 %\n");
  EXPECT_EQ(ErrorText(1), "step time error         +20.0 %\n");
  // 1.2 / 1.1 = 1.0909
  EXPECT_EQ(ErrorText(1.1),
            "step time error         +20.0 %\n"
            "  machine drift: its reference GEMM took 10.0 % longer than at calibration; step time "
            "error without drift +9.1 %\n");
  // 1.2 / 0.6 = 2; rates measured on a machine this busy are unreliable.
  EXPECT_THAT(ErrorText(0.6), AllOf(HasSubstr("took 40.0 % less"), HasSubstr("+100.0 %"),
                                    HasSubstr("`foretrain calibrate`")));
}

TEST(ComparisonDetails, ListsOpsThatOneSideAloneHasByName) {
  const OpId norm = PackId({.pass = Pass::kForward, .block = 1}, 0);
  const OpId later = PackId({.pass = Pass::kForward, .block = 1, .micro_batch = 3}, 0);
  const OpId cast = PackId({.pass = Pass::kForward, .block = 1}, 1);
  const std::map<OpId, std::string> predicted{{NameKey(norm), "norm1"}};
  const std::map<OpId, std::string> measured{
      {NameKey(cast), "void at::native::elementwise_kernel<128, 4>(int)"}};
  ComparisonView view;
  view.join.only_predicted = {{norm, 2'000'000}, {later, 3'000'000}};
  view.join.only_measured = {{cast, 7'000'000}};
  const std::string text = ComparisonDetails(view, {predicted, measured});
  EXPECT_THAT(text, HasSubstr("Only predicted: 2 ops of 1 names"));
  EXPECT_THAT(text, testing::ContainsRegex("norm1 +2 +5.00 ms"));
  EXPECT_THAT(text, testing::ContainsRegex("elementwise_kernel.* 1 +7.00 ms"));
}

TEST(ComparisonText, SaysHowMuchOfATraceWasPaired) {
  ComparisonView view;
  view.predicted.time_s = view.measured.time_s = 1;
  view.structure = StructuralPairs{.kernels = 10,
                                   .paired_kernels = 9,
                                   .ops = 8,
                                   .paired_ops = 7,
                                   .traced_ns = 200,
                                   .paired_ns = 150,
                                   .repeated_ns = 100,
                                   .steady_ns = 90};
  EXPECT_THAT(ComparisonText(view),
              AllOf(HasSubstr("75.0 % of the traced time: 9 of 10 kernels with 7 of 8 ops"),
                    HasSubstr("steady pairs            90.0 % of it")));
}

}  // namespace
}  // namespace foretrain
