#include "app/training/local_gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"

namespace foretrain {
namespace {

// Names and memory in MiB as nvidia-smi prints them.
TEST(LocalGpu, IsTheCataloguesEntryOfTheDriversName) {
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value());
  const struct {
    const char* driver;
    std::int64_t mib;
    const char* entry;
  } names[] = {{"NVIDIA H200", 143'771, "h200-141gb-sxm"},
               {"NVIDIA H100 80GB HBM3", 81'559, "h100-80gb-sxm"},
               {"NVIDIA H100 PCIe", 81'559, "h100-80gb-pcie"},
               {"NVIDIA A100-SXM4-80GB", 81'920, "a100-80gb-sxm"},
               {"NVIDIA A100-SXM4-40GB", 40'960, "a100-40gb-sxm"},
               {"NVIDIA A100 80GB PCIe", 81'920, "a100-80gb-pcie"},
               {"Tesla V100-SXM2-16GB", 16'384, "v100-16gb-sxm2"},
               {"NVIDIA L4", 23'034, "l4-24gb"},
               {"NVIDIA L40S", 46'068, "l40s-48gb"},
               {"NVIDIA A10G", 23'028, "a10g-24gb"},
               {"NVIDIA GeForce RTX 4090", 24'564, "rtx4090-24gb"},
               {"NVIDIA RTX 6000 Ada Generation", 49'140, "rtx6000ada-48gb"},
               {"NVIDIA RTX A6000", 49'140, "a6000-48gb"},
               {"NVIDIA B200", 183'359, "b200-180gb-sxm"}};
  for (const auto& name : names) {
    const auto found = FindGpuOfDriver(*catalogue, name.driver, name.mib * kMiB);
    ASSERT_TRUE(found.has_value()) << name.driver << ": " << found.error().message;
    EXPECT_EQ(found->name, name.entry) << name.driver;
  }
}

TEST(LocalGpu, IsNoneWhereTheCatalogueHasNoSuchChip) {
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value());
  const auto found = FindGpuOfDriver(*catalogue, "NVIDIA T1000", 4096 * kMiB);
  ASSERT_FALSE(found.has_value());
  EXPECT_EQ(found.error().message, "the catalogue has no \"NVIDIA T1000\"");
}

}  // namespace
}  // namespace foretrain
