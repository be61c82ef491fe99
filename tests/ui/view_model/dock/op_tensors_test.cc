#include "ui/view_model/dock/op_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/ui/planning_samples.h"

namespace foretrain::ui {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// gpt2-124m on 2 ranks with tensor parallelism.
const ProgramOps& Ops() {
  static const std::shared_ptr<const ProgramOps> ops = [] {
    const Scenario of = SampleScenario("gpt2-124m", "1x2xh100-80gb-sxm", 1, 2, 1, 2, 64);
    return *ProgramOps::Make({of.model, of.cluster, of.machine.profile, of.plan});
  }();
  return *ops;
}

OpId FirstLayer(Pass pass, int op) { return PackId({.pass = pass, .block = 1}, op); }

TEST(OpTensors, OfTheFirstOpOfALayerComeFromTheEmbedding) {
  const auto tensors = Ops().Of(0, FirstLayer(Pass::kForward, 0));
  ASSERT_TRUE(tensors.has_value());
  EXPECT_THAT(tensors->inputs, Contains(Field(&OpTensor::other, HasSubstr("embedding"))));
  EXPECT_THAT(tensors->inputs, Contains(Field(&OpTensor::name, HasSubstr("parameters"))));
  EXPECT_THAT(tensors->outputs, Not(IsEmpty()));
}

// Each writer that is named reads as an op of the program: the next op's input is the op's output.
TEST(OpTensors, OfAnOpAreReadByTheOpThatNamesItAsTheirWriter) {
  const auto first = Ops().Of(0, FirstLayer(Pass::kForward, 0));
  const auto second = Ops().Of(0, FirstLayer(Pass::kForward, 1));
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE(second.has_value());
  std::set<std::string> written, read;
  for (const OpTensor& tensor : first->outputs) written.insert(tensor.name);
  for (const OpTensor& tensor : second->inputs) {
    if (tensor.other.starts_with("from ")) read.insert(tensor.name);
  }
  std::vector<std::string> common;
  std::set_intersection(written.begin(), written.end(), read.begin(), read.end(),
                        std::back_inserter(common));
  EXPECT_THAT(common, Not(IsEmpty()));
}

TEST(OpTensors, OfAWholeInstructionLeaveOutItsTemporaries) {
  const auto whole = Ops().Of(0, FirstLayer(Pass::kForward, kWholeInstruction));
  ASSERT_TRUE(whole.has_value());
  for (const OpTensor& tensor : whole->outputs) {
    EXPECT_THAT(tensor.other, Not(HasSubstr("not read in this step"))) << tensor.name;
  }
  EXPECT_THAT(whole->outputs, Contains(Field(&OpTensor::other, HasSubstr("layer 2"))));
}

TEST(OpTensors, AreUnknownForOpsThatTheProgramLacks) {
  EXPECT_FALSE(Ops().Of(0, kNoOp).has_value());
  EXPECT_FALSE(Ops().Of(0, FirstLayer(Pass::kForward, 4000)).has_value());
  EXPECT_FALSE(Ops().Of(0, PackId({.pass = Pass::kForward, .block = 900}, 0)).has_value());
  EXPECT_FALSE(Ops().Of(-1, FirstLayer(Pass::kForward, 0)).has_value());
}

}  // namespace
}  // namespace foretrain::ui
