#include "profiler/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::vector<std::string> Row(const std::vector<GpuLink>& links) {
  std::vector<std::string> names;
  for (const GpuLink& link : links) names.push_back(Name(link));
  return names;
}

TEST(Nvml, SaysWhatTheGpusAreAndWhichDriverRunsThem) {
  const auto nvml = Nvml::Open(TestPlugin("nvml_pair"));
  ASSERT_TRUE(nvml.has_value()) << nvml.error().message;
  EXPECT_EQ((*nvml)->DriverVersion().value(), "580.1");
  const auto gpus = (*nvml)->Gpus();
  ASSERT_TRUE(gpus.has_value()) << gpus.error().message;
  ASSERT_EQ(gpus->size(), 4U);
  EXPECT_EQ((*gpus)[0].name, "NVIDIA H200");
  EXPECT_EQ((*gpus)[3].bus_id, "00000000:1E:00.0");
}

// tests/plugins/fake_nvml.cc defines the links.
TEST(Nvml, NamesLinksAsTheTopologyOfTheDriversToolDoes) {
  const auto nvml = Nvml::Open(TestPlugin("nvml_pair"));
  ASSERT_TRUE(nvml.has_value()) << nvml.error().message;
  const auto links = (*nvml)->Links();
  ASSERT_TRUE(links.has_value()) << links.error().message;
  EXPECT_THAT(Row((*links)[0]), ElementsAre("X", "NV4", "SYS", "SYS"));
  EXPECT_THAT(Row((*links)[1]), ElementsAre("NV4", "X", "SYS", "SYS"));
  EXPECT_THAT(Row((*links)[2]), ElementsAre("SYS", "SYS", "X", "PIX"));
}

TEST(Nvml, CountsLinksThroughSwitches) {
  const auto nvml = Nvml::Open(TestPlugin("nvml_switches"));
  ASSERT_TRUE(nvml.has_value()) << nvml.error().message;
  const auto links = (*nvml)->Links();
  ASSERT_TRUE(links.has_value()) << links.error().message;
  EXPECT_THAT(Row((*links)[0]), ElementsAre("X", "NV18", "NV18", "NV18"));
}

TEST(Nvml, SaysWhyItIsNotThere) {
  const auto missing = Nvml::Open("libno_such_nvml.so.1");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().message, "NVML is not here (libno_such_nvml.so.1 was not found)");
  const auto other = Nvml::Open("libc.so.6");
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, HasSubstr("has no nvmlInit_v2"));
  const auto stopped = Nvml::Open(TestPlugin("nvml_stopped"));
  ASSERT_FALSE(stopped.has_value());
  EXPECT_THAT(stopped.error().message, EndsWith("does not start: Driver Not Loaded"));
}

}  // namespace
}  // namespace foretrain
