#include "app/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretrain {
namespace {

using testing::HasSubstr;

Span At(std::int64_t start_ns, std::int64_t end_ns, Pass pass, OpClass op_class = OpClass::kGemm) {
  return {.start_ns = start_ns,
          .end_ns = end_ns,
          .op = PackId({.pass = pass}, 0),
          .ready_ns = start_ns,
          .queue = op_class == OpClass::kGemm ? Queue::kCompute : Queue::kReduce,
          .op_class = op_class};
}

// A step of 100 ns from 1000 on, shown in ten columns of 10 ns.
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
  // F for 25 ns, of which 5 lie in the third column, W for 2 and R for 3 in it; B for the last 40.
  EXPECT_EQ(LineOf({At(1000, 1025, Pass::kForward), At(1025, 1027, Pass::kBackwardWeight),
                    At(1027, 1030, Pass::kRecompute), At(1060, 1100, Pass::kBackward)}),
            "|FFF...BBBB|");
  // Four of ten ns are not half.
  EXPECT_EQ(LineOf({At(1010, 1014, Pass::kForward)}), "|..........|");
  EXPECT_EQ(LineOf({At(1010, 1015, Pass::kForward)}), "|.F........|");
}

TEST(TimelineText, ShowsCommunicationOnlyWhereItIsAlone) {
  // 1000 to 1030; compute covers half of the second column and 4 of 10 ns of the third.
  EXPECT_EQ(LineOf({At(1000, 1030, Pass::kUpdate, OpClass::kDpComm), At(1010, 1015, Pass::kForward),
                    At(1020, 1024, Pass::kForward)}),
            "|-F-.......|");
  // Waiting for peers is no communication: ready at 1020.
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

}  // namespace
}  // namespace foretrain
