// Longer than 400 lines: both tables of the catalogue and the built-in rows are tested with the
// same helpers.
#include "sim/config/catalogue/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/embedded.h"
#include "base/units.h"
#include "sim/config/csv.h"
#include "sim/embedded_data.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const Catalogue& BuiltIn() {
  static const Catalogue catalogue = [] {
    auto parsed = BuiltInCatalogue();
    if (!parsed) {
      ADD_FAILURE() << parsed.error().message;
      return Catalogue{};
    }
    return *std::move(parsed);
  }();
  return catalogue;
}

ModelSpec Model(std::string_view name) {
  const auto entry = FindModel(BuiltIn(), name);
  EXPECT_TRUE(entry.has_value()) << entry.error().message;
  return entry ? entry->spec : ModelSpec{};
}

std::string UnsupportedPartOf(std::string_view name) {
  const auto entry = FindModel(BuiltIn(), name);
  return entry ? entry->unsupported : entry.error().message;
}

ClusterSpec Cluster(std::string_view text) {
  const auto cluster = ParseCluster(text, BuiltIn());
  EXPECT_TRUE(cluster.has_value()) << cluster.error().message;
  return cluster ? *cluster : ClusterSpec{};
}

std::string ClusterRefusal(std::string_view text, ErrorCode code = ErrorCode::kInvalidArgument) {
  const auto cluster = ParseCluster(text, BuiltIn());
  if (cluster) return "accepted";
  EXPECT_EQ(cluster.error().code, code) << cluster.error().message;
  return cluster.error().message;
}

TEST(Catalogue, EveryRowOfTheBuiltInTablesReads) {
  EXPECT_EQ(BuiltIn().gpus.size(), 44U);
  EXPECT_EQ(BuiltIn().models.size(), 159U);
  EXPECT_EQ(BuiltIn().models.front().name, kDefaultModel);
}

TEST(Catalogue, EveryEntryIsFoundByEachOfItsNames) {
  for (const GpuEntry& gpu : BuiltIn().gpus) {
    std::vector<std::string> names = gpu.aliases;
    names.insert(names.end(), {gpu.name, gpu.device.name});
    for (const std::string& name : names) {
      const auto found = FindGpu(BuiltIn(), name);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(found->name, gpu.name);
    }
  }
  for (const ModelEntry& model : BuiltIn().models) {
    std::vector<std::string> names = model.aliases;
    names.insert(names.end(), {model.name, model.title});
    for (const std::string& name : names) {
      const auto found = FindModel(BuiltIn(), name);
      ASSERT_TRUE(found.has_value()) << found.error().message;
      EXPECT_EQ(found->name, model.name);
    }
  }
}

TEST(Catalogue, DecodersCountWhatTheTableComputedForThem) {
  const EmbeddedFile* file = FindEmbedded(sim_data::Files(), "sim/config/catalogue/models.csv");
  ASSERT_NE(file, nullptr);
  const auto table = ParseCsv(file->text, file->path);
  ASSERT_TRUE(table.has_value());
  int supported = 0;
  for (const CsvRow& row : table->rows) {
    const CsvReader reader(*table, row);
    const auto entry = FindModel(BuiltIn(), reader.Text("name"));
    ASSERT_TRUE(entry.has_value());
    if (!entry->described) continue;
    ++supported;
    // The column is in units of 10^9 with three decimals.
    const double computed =
        std::strtod(std::string(reader.Text("params_computed_b")).c_str(), nullptr);
    EXPECT_NEAR(static_cast<double>(ParameterCount(entry->spec)) / 1e9, computed, 0.00051)
        << entry->name;
  }
  EXPECT_EQ(supported, 158);
}

TEST(Catalogue, CountsPublishedParametersExactly) {
  EXPECT_EQ(ParameterCount(Model("gpt2")), 124'439'808);
  EXPECT_EQ(ParameterCount(Model("gpt2-xl")), 1'557'611'200);
  EXPECT_EQ(ParameterCount(Model("llama2-7b")), 6'738'415'616);
  EXPECT_EQ(ParameterCount(Model("llama3-8b")), 8'030'261'248);
  EXPECT_EQ(ParameterCount(Model("llama3.1-405b")), 405'853'388'800);
  EXPECT_EQ(ParameterCount(Model("mistral-7b")), 7'241'732'096);
  EXPECT_EQ(ParameterCount(Model("qwen2-0.5b")), 494'032'768);
  EXPECT_EQ(ParameterCount(Model("qwen2-7b")), 7'615'616'512);
  EXPECT_EQ(ParameterCount(Model("tinyllama-1.1b")), 1'100'048'384);
  EXPECT_EQ(ParameterCount(Model("mixtral-8x7b")), 46'702'792'704);
  // The decoders without the vision part, 48 layers of 62,924,800 in attention, its norms and those
  // of the MLP. Experts, shared expert and router: 17 and 129 * 125,829,120 + 5120 * 16 or 128;
  // dense MLP in every other layer of Maverick: 251,658,240. Tables and final norm: 2,068,976,640.
  EXPECT_EQ(ParameterCount(Model("llama4-scout")), 107'769'861'120);
  EXPECT_EQ(ParameterCount(Model("llama4-maverick")), 400'711'848'960);
  EXPECT_EQ(ActiveParameterCount(Model("llama4-scout")), 17'172'894'720);
  EXPECT_EQ(ActiveParameterCount(Model("llama4-maverick")), 17'184'691'200);
  // The masked-LM model: 31,782,912 in tables and their norm, 24 layers of 12,596,224, transform
  // and norm of 1,051,648, bias of 30,522.
  EXPECT_EQ(ParameterCount(Model("bert-large")), 335'174'458);
  EXPECT_EQ(ParameterCount(Model("t5-11b")), 11'307'321'344);
  EXPECT_EQ(ParameterCount(Model("t5-3b")), 2'851'598'336);
  EXPECT_EQ(ParameterCount(Model("t5-base")), 222'903'552);
}

TEST(Catalogue, TheDefaultModelIsASmallGptOverBytes) {
  const ModelSpec model = Model(kDefaultModel);
  EXPECT_EQ(model.vocab, 256);
  EXPECT_EQ(model.max_sequence, 256);
  EXPECT_EQ(model.norm, NormKind::kLayerNorm);
  EXPECT_EQ(model.mlp, MlpKind::kGelu);
  EXPECT_EQ(model.positions, PositionKind::kLearned);
  EXPECT_TRUE(model.tied_embeddings);
  // 12 * 384^2 + 13 * 384 = 1774464 per layer, 6 layers, two tables of 256 * 384 = 98304, a norm of
  // 768.
  EXPECT_EQ(ParameterCount(model), 6 * 1'774'464 + 2 * 98'304 + 768);
}

// Published numbers are rounded, some to two digits, and some exclude embeddings. Tolerance: 2 %,
// or half a unit of the second digit if that is larger, except for the row named.
TEST(Catalogue, DecodersCountWhatIsPublished) {
  for (const ModelEntry& entry : BuiltIn().models) {
    if (!entry.described || entry.published_parameters == 0) continue;
    // NVIDIA calls 21.3e9 parameters 22B.
    const double unit = std::pow(10, std::floor(std::log10(entry.published_parameters)) - 1);
    const double tolerance = entry.name == "nemotron-3-22b"
                                 ? 0.04
                                 : std::max(0.02, unit / 2 / entry.published_parameters);
    const auto counted = static_cast<double>(ParameterCount(entry.spec));
    EXPECT_NEAR(counted / entry.published_parameters, 1, tolerance) << entry.name;
    if (entry.active_parameters == 0) continue;
    const auto active = static_cast<double>(ActiveParameterCount(entry.spec));
    // Some published numbers exclude embeddings, which are up to 1.2e9.
    EXPECT_NEAR(active, entry.active_parameters, 1.3e9) << entry.name;
  }
}

TEST(Catalogue, HasNoReasonAgainstModelsThatCanBePlanned) {
  EXPECT_EQ(UnsupportedPartOf("t5-11b"), "");
  EXPECT_EQ(UnsupportedPartOf("llama3-70b"), "");
  EXPECT_EQ(UnsupportedPartOf("gpt3-175b"), "");
}

TEST(Catalogue, SaysWhatAModelHas) {
  const ModelSpec neox = Model("gpt-neox-20b");
  EXPECT_EQ(neox.order, LayerOrder::kParallel);
  EXPECT_EQ(neox.rotary_dim, 24);
  const ModelSpec deepseek = Model("deepseek-v3");
  EXPECT_EQ(deepseek.attention, AttentionKind::kLatent);
  EXPECT_EQ(deepseek.router, RouterKind::kSigmoid);
  EXPECT_EQ(deepseek.query_rank, 1536);
  EXPECT_TRUE(Model("qwen3-8b").qk_norm);
  EXPECT_TRUE(Model("bloom-176b").embedding_norm);
  EXPECT_EQ(Model("bloom-176b").positions, PositionKind::kAlibi);
  EXPECT_FALSE(Model("mpt-7b-benchmark").norm_bias);
  EXPECT_EQ(Model("nemotron-4-340b").mlp, MlpKind::kSquaredRelu);
  EXPECT_EQ(Model("gpt-oss-120b").global_attention_every, 2);
  EXPECT_EQ(Model("llama4-maverick").expert_every, 2);
  EXPECT_EQ(Model("llama4-scout").attention_chunk, 8192);
  EXPECT_FALSE(Model("bert-large").causal);
}

TEST(Catalogue, ReadsTheRatesOfAGpuInBaseUnits) {
  const auto gpu = FindGpu(BuiltIn(), "H100");
  ASSERT_TRUE(gpu.has_value());
  EXPECT_EQ(gpu->device.name, "H100-80GB-SXM");
  EXPECT_DOUBLE_EQ(gpu->device.bf16_flop_per_s, 989e12);
  EXPECT_DOUBLE_EQ(gpu->device.memory_bytes_per_s, 3350e9);
  EXPECT_EQ(gpu->device.memory_bytes, 80 * kGiB);
  EXPECT_DOUBLE_EQ(gpu->device.link_bytes_per_s, 450e9);
  EXPECT_EQ(gpu->l2_bytes, 50 * kMiB);
  EXPECT_EQ(gpu->device.multiprocessors, 132);
  EXPECT_DOUBLE_EQ(gpu->measured_bf16_flop_per_s, 794.5e12);
  EXPECT_EQ(gpu->unusable, "");
}

TEST(Catalogue, MarksGpusWithoutRatesUnusable) {
  constexpr std::string_view kText =
      "name,gpu,bf16_tflops,fp16_tflops,mem_gb,mem_gb_per_s,gpu_link_gb_per_s_per_direction,"
      "pcie_gb_per_s_per_direction\nx,X1,,,32,1792,,64\n";
  const auto gpus = ParseGpus(kText, "g.csv");
  ASSERT_TRUE(gpus.has_value()) << gpus.error().message;
  EXPECT_THAT(gpus->front().unusable, HasSubstr("bf16 and fp16 rates"));
  const auto cluster = MakeCluster(gpus->front(), 1, 8);
  ASSERT_FALSE(cluster.has_value());
  EXPECT_EQ(cluster.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(cluster.error().message, AllOf(HasSubstr("X1"), HasSubstr("JSON file")));
}

TEST(Catalogue, MakesAClusterOfEveryBuiltInGpu) {
  for (const GpuEntry& gpu : BuiltIn().gpus) {
    const ClusterSpec cluster = Cluster("2x8x" + gpu.name);
    EXPECT_GT(cluster.host_memory_bytes, 0) << gpu.name;
    EXPECT_THAT(cluster.assumptions, HasSubstr("host memory ")) << gpu.name;
  }
}

TEST(Catalogue, RefusesReferenceNodesOfNoGpuOrOfOneTwice) {
  constexpr std::string_view kHeader =
      "gpu,node,devices,adapters,adapter_gbit_per_s,host_gib,source\n";
  const auto refusal = [&](std::string_view rows) {
    std::vector<GpuEntry> gpus = BuiltIn().gpus;
    for (GpuEntry& gpu : gpus) gpu.node = {};
    const auto added = AddReferenceNodes(std::string(kHeader).append(rows), "n.csv", gpus);
    return added ? std::string("accepted") : added.error().message;
  };
  EXPECT_EQ(refusal("h100-80gb-sxm,DGX H100,8,8,400,2048,s\n"), "accepted");
  EXPECT_THAT(refusal("h1000,DGX H100,8,8,400,2048,s\n"),
              AllOf(HasSubstr("n.csv line 2, column gpu"), HasSubstr("h1000")));
  EXPECT_THAT(refusal("l4-24gb,A,8,,,,s\nl4-24gb,B,8,,,,s\n"), HasSubstr("two rows"));
  EXPECT_THAT(refusal("l4-24gb,A,0,,,,s\n"), HasSubstr("column devices"));
  EXPECT_THAT(refusal("l4-24gb,,8,,,,s\n"), HasSubstr("column node"));
}

TEST(Catalogue, SuggestsTheNearestName) {
  const auto model = FindModel(BuiltIn(), "llama-3-8b");
  ASSERT_FALSE(model.has_value());
  EXPECT_THAT(model.error().message,
              AllOf(HasSubstr("llama-3-8b"), HasSubstr("Did you mean \"llama3-8b\"?")));
  const auto gpu = FindGpu(BuiltIn(), "a100-80g");
  ASSERT_FALSE(gpu.has_value());
  EXPECT_THAT(gpu.error().message, HasSubstr("a100-80gb"));
}

TEST(Catalogue, RefusesAnAliasOfSeveralEntriesAndListsThem) {
  constexpr std::string_view kTwo =
      "name,aliases,gpu,bf16_tflops,fp16_tflops,mem_gb,mem_gb_per_s,gpu_link_gb_per_s_per_"
      "direction,"
      "pcie_gb_per_s_per_direction\n"
      "x1,card,X1,1,1,1,1,1,1\nx2,card,X2,1,1,1,1,1,1\ncard2,x1,X3,1,1,1,1,1,1\n";
  Catalogue catalogue;
  auto gpus = ParseGpus(kTwo, "g.csv");
  ASSERT_TRUE(gpus.has_value()) << gpus.error().message;
  catalogue.gpus = *gpus;
  const auto found = FindGpu(catalogue, "CARD");
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().message, AllOf(HasSubstr("\"CARD\""), HasSubstr("x1, x2")));
  EXPECT_EQ(FindGpu(catalogue, "x1")->device.name, "X1");  // a name takes precedence over an alias
}

TEST(Catalogue, RefusesBrokenTablesWithLineAndColumn) {
  constexpr std::string_view kHeader =
      "name,gpu,bf16_tflops,fp16_tflops,mem_gb,mem_gb_per_s,gpu_link_gb_per_s_per_direction,"
      "pcie_gb_per_s_per_direction,gpu_link_devices\n";
  const auto refusal = [&](std::string_view rows) {
    const auto gpus = ParseGpus(std::string(kHeader).append(rows), "g.csv");
    return gpus ? std::string("accepted") : gpus.error().message;
  };
  EXPECT_EQ(refusal("x,X,1,1,80,1,1,1,\n"), "accepted");
  EXPECT_THAT(refusal("x,X,fast,1,80,1,1,1,\n"),
              AllOf(HasSubstr("g.csv line 2, column bf16_tflops"), HasSubstr("fast")));
  EXPECT_THAT(refusal("x,X,-1,1,80,1,1,1,\n"), HasSubstr("column bf16_tflops"));
  EXPECT_THAT(refusal("x,X,nan,1,80,1,1,1,\n"), HasSubstr("column bf16_tflops"));
  EXPECT_THAT(refusal("x,X,1,1,1e9,1,1,1,\n"), HasSubstr("column mem_gb"));
  EXPECT_THAT(refusal("x,X,1,1,80,1,1,1,0\n"), HasSubstr("column gpu_link_devices"));
  EXPECT_THAT(refusal("x,,1,1,80,1,1,1,\n"), HasSubstr("column gpu"));
  EXPECT_THAT(refusal("Big,X,1,1,80,1,1,1,\n"), HasSubstr("\"Big\" must be"));
  EXPECT_THAT(refusal("x,X,1,1,80,1,1,1,\nx,Y,1,1,80,1,1,1,\n"),
              HasSubstr("line 3, column name: \"x\" is the name of an earlier row"));
  const auto lacking = ParseGpus("name,gpu\nx,X\n", "g.csv");
  ASSERT_FALSE(lacking.has_value());
  EXPECT_THAT(lacking.error().message,
              AllOf(HasSubstr("lacks the columns"), HasSubstr("mem_gb_per_s")));
}

TEST(Catalogue, ReadsAModelTableWithoutTheOptionalColumns) {
  constexpr std::string_view kText =
      "name,layers,hidden,heads,kv_heads,head_dim,ffn_hidden,vocab,max_seq,gated_mlp,norm,biases,"
      "tied_embeddings,position_encoding\n"
      "a,2,8,2,1,4,16,100,32,1,rmsnorm,0,0,rope\nb,2,8,2,2,4,16,100,32,0,layernorm,1,1,learned\n"
      "c,2,8,2,2,4,16,100,32,0,layernorm,1,1,rotated twice\n";
  const auto models = ParseModels(kText, "m.csv");
  ASSERT_TRUE(models.has_value()) << models.error().message;
  const ModelSpec& a = (*models)[0].spec;
  EXPECT_EQ((*models)[0].unsupported, "");
  EXPECT_EQ(a.mlp, MlpKind::kSwiglu);
  EXPECT_EQ(a.norm, NormKind::kRmsNorm);
  EXPECT_FALSE(a.attention_bias);
  EXPECT_EQ(a.rope_theta, 10000);
  const ModelSpec& b = (*models)[1].spec;
  EXPECT_TRUE(b.attention_bias);
  EXPECT_EQ(b.mlp, MlpKind::kGelu);
  EXPECT_EQ((*models)[2].unsupported, "positions rotated twice");
}

TEST(Catalogue, RefusesASupportedModelThatCannotBe) {
  constexpr std::string_view kText =
      "name,layers,hidden,heads,kv_heads,head_dim,ffn_hidden,vocab,max_seq,gated_mlp,norm,biases,"
      "tied_embeddings,position_encoding\n"
      "a,2,8,3,2,4,16,100,32,1,rmsnorm,0,0,rope\n";
  const auto models = ParseModels(kText, "m.csv");
  ASSERT_FALSE(models.has_value());
  EXPECT_THAT(models.error().message,
              AllOf(HasSubstr("m.csv line 2"), HasSubstr("kv_heads 2: must divide heads 3")));
}

TEST(ParseCluster, ReadsNodesGpusAndNameInAnyCase) {
  const ClusterSpec big = Cluster("64x8xa100-80gb-sxm");
  EXPECT_EQ(big.name, "64x8xA100-80GB-SXM");
  EXPECT_EQ(big.nodes, 64);
  EXPECT_EQ(big.devices_per_node, 8);
  EXPECT_EQ(big.Devices(), 512);
  EXPECT_EQ(big.device.name, "A100-80GB-SXM");
  EXPECT_FALSE(big.is_cpu);
  EXPECT_EQ(Cluster("8XH100").name, "1x8xH100-80GB-SXM");
  EXPECT_EQ(Cluster(" h200 ").name, "1x1xH200-141GB-SXM");
}

TEST(ParseCluster, CutsCountsFromNamesThatHoldAnX) {
  EXPECT_EQ(Cluster("2x8xmi300x").name, "2x8xMI300X-192GB");
  EXPECT_EQ(Cluster("mi300x").name, "1x1xMI300X-192GB");
  EXPECT_EQ(Cluster("4x3090").name, "1x4xRTX3090-24GB");
  EXPECT_EQ(Cluster("3090").name, "1x1xRTX3090-24GB");
  EXPECT_EQ(Cluster("18x4xgb200").Devices(), 72);
}

TEST(ParseCluster, FillsInTheNetworkByTheGpuAndSaysSo) {
  const std::pair<std::string_view, double> cases[] = {
      {"v100", 12.5e9}, {"a100", 25e9},  {"a100-40gb-pcie", 25e9}, {"h100", 50e9},
      {"h200", 50e9},   {"b200", 50e9},  {"a800", 25e9},           {"gh200", 50e9},
      {"4090", 12.5e9}, {"gb200", 50e9}, {"gb300", 100e9},         {"mi300x", 50e9},
      {"b300", 100e9},  {"h800", 50e9},  {"mi250x", 25e9}};
  for (const auto& [name, rate] : cases) {
    const ClusterSpec cluster = Cluster("2x8x" + std::string(name));
    EXPECT_DOUBLE_EQ(cluster.network_bytes_per_s, rate) << name;
    EXPECT_THAT(cluster.assumptions, StartsWith("network ")) << name;
  }
  EXPECT_THAT(Cluster("2x8xa100").assumptions,
              HasSubstr("25 GB/s per GPU and direction (DGX A100 640GB)"));
}

// A DGX H100 has 2 TiB for 8 GPUs; a card without a reference node brings 64 GiB.
TEST(ParseCluster, FillsInTheHostMemoryByTheDevicesOfANode) {
  EXPECT_EQ(Cluster("2x8xh100").host_memory_bytes, 2048 * kGiB);
  EXPECT_EQ(Cluster("h100").host_memory_bytes, 256 * kGiB);
  EXPECT_EQ(Cluster("2x4090").host_memory_bytes, 128 * kGiB);
  EXPECT_THAT(Cluster("2x4090").assumptions,
              HasSubstr("host memory 128 GiB a node (no reference node known)"));
}

TEST(ParseCluster, SaysWhereABridgeJoinsOnlyPairs) {
  EXPECT_EQ(Cluster("2xa100-pcie").assumptions.find("join only"), std::string::npos);
  const ClusterSpec eight = Cluster("8xa100-pcie");
  EXPECT_EQ(eight.device.link_devices, 2);
  EXPECT_DOUBLE_EQ(eight.device.link_bytes_per_s, 300e9);
  EXPECT_THAT(eight.assumptions, HasSubstr("join only 2 of the 8 GPUs"));
}

TEST(ParseCluster, JoinsTheTraysOfARackByTheirLinks) {
  const ClusterSpec rack = Cluster("36x4xgb200");
  EXPECT_EQ(rack.device.link_devices, 72);
  EXPECT_EQ(rack.DevicesPerUnit(), 72);
  EXPECT_THAT(rack.assumptions, HasSubstr("links join 72 GPUs of 18 nodes"));
  EXPECT_EQ(Cluster("2x72xgb200").DevicesPerUnit(), 72);
}

TEST(ParseCluster, LaysOutATorusAsNearToACubeAsItCan) {
  EXPECT_EQ(Cluster("16x4xtpu-v4").torus, (std::vector<int>{4, 4, 4}));
  EXPECT_EQ(Cluster("32x8xtpu-v5e").torus, (std::vector<int>{16, 16}));
  EXPECT_EQ(Cluster("32x4xtpu-v5p").torus, (std::vector<int>{8, 4, 4}));
  EXPECT_EQ(Cluster("7xtpu-v4").torus, (std::vector<int>{7, 1, 1}));
  EXPECT_THAT(Cluster("16x4xtpu-v4").assumptions, HasSubstr("a torus of 4 x 4 x 4"));
  EXPECT_TRUE(Cluster("8xh100").torus.empty());
}

// Values of the vendors: B200 has 9 PFLOP/s dense FP4; DGX-1's mesh has 6 links of 25 GB/s to 4
// neighbours.
TEST(Catalogue, KnowsLinksSwitchesAndSmallFormats) {
  const auto device = [](std::string_view name) { return FindGpu(BuiltIn(), name)->device; };
  EXPECT_DOUBLE_EQ(device("b200").fp4_flop_per_s, 9000e12);
  EXPECT_EQ(device("h100").fp4_flop_per_s, 0);
  EXPECT_TRUE(device("h100").link_reduces);
  EXPECT_FALSE(device("a100").link_reduces);
  EXPECT_DOUBLE_EQ(device("v100").link_peer_bytes_per_s, 37.5e9);
  EXPECT_DOUBLE_EQ(device("mi300x").link_peer_bytes_per_s, 64e9);
  EXPECT_EQ(device("a100").devices_per_pcie_switch, 2);
  EXPECT_EQ(device("h100").devices_per_pcie_switch, 1);
  EXPECT_FALSE(device("rtx4090").peer_access);
  EXPECT_TRUE(device("l40s").peer_access);
  EXPECT_TRUE(device("rtx4090").halves_fp32_sums);
  EXPECT_FALSE(device("l40s").halves_fp32_sums);
}

TEST(ParseCluster, RefusesCountsOutOfRangeAndUnknownGpus) {
  EXPECT_THAT(ClusterRefusal("0x8xa100"), AllOf(HasSubstr("\"0x8xa100\""), HasSubstr("nodes")));
  EXPECT_THAT(ClusterRefusal("0xa100"), HasSubstr("GPUs of a node"));
  EXPECT_THAT(ClusterRefusal("99999999999999999999xa100"), HasSubstr("GPUs of a node"));
  EXPECT_THAT(ClusterRefusal("1048576x2xa100"), HasSubstr("2097152 devices"));
  EXPECT_THAT(ClusterRefusal("8xa101"),
              AllOf(HasSubstr("\"a101\""), HasSubstr("Did you mean \"a100\"?")));
  EXPECT_THAT(ClusterRefusal("2x8x4xa100"), HasSubstr("NODESxGPUSxGPU"));
  EXPECT_THAT(ClusterRefusal("64x8"), HasSubstr("not in the catalogue"));
  EXPECT_THAT(ClusterRefusal(""), HasSubstr("NODESxGPUSxGPU"));
  EXPECT_THAT(ClusterRefusal("8x"), HasSubstr("NODESxGPUSxGPU"));
}

TEST(LocalCluster, SharesCoresAndMemoryAmongRanks) {
  const auto cluster = LocalCluster(16, 64 * kGiB, 4);
  ASSERT_TRUE(cluster.has_value()) << cluster.error().message;
  EXPECT_TRUE(cluster->is_cpu);
  EXPECT_EQ(cluster->name, "local");
  EXPECT_EQ(cluster->Devices(), 4);
  EXPECT_EQ(cluster->device.memory_bytes, 16 * kGiB);
  EXPECT_EQ(cluster->host_memory_bytes, 64 * kGiB);
  EXPECT_THAT(cluster->assumptions, HasSubstr("4 ranks share 16 cores"));
}

TEST(LocalCluster, RefusesAMachineWithoutCoresOrMemory) {
  EXPECT_THAT(LocalCluster(0, kGiB).error().message, HasSubstr("cores 0"));
  EXPECT_THAT(LocalCluster(1, kGiB, 0).error().message, HasSubstr("ranks 0"));
  EXPECT_THAT(LocalCluster(1, 0).error().message, HasSubstr("memory_bytes 0"));
}

}  // namespace
}  // namespace foretrain
