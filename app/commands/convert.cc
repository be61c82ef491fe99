#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "app/commands/commands.h"
#include "app/weights/named_weights.h"
#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#include "runtime/checkpoint/checkpoint_weights.h"
#include "runtime/parameters/peft.h"
#include "runtime/parameters/weight_writer.h"
#include "runtime/parameters/weights.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxConfigBytes = 16 * kMiB, kMaxTokenizerBytes = 256 * kMiB;

// Files of a model's folder that belong to its tokenizer and to generation. They are copied.
constexpr std::string_view kCopied[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "tokenizer.model",
                                        "chat_template.jinja",
                                        "generation_config.json"};

constexpr std::string_view NameOfFormat(NumberFormat format) {
  if (format == NumberFormat::kFp32) return "fp32";
  return format == NumberFormat::kBf16 ? "bf16" : "fp16";
}

// Writes weights as a folder that the Hugging Face library loads.
class Convert final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional(
        "FROM", from_,
        "A model's folder, a safetensors file, or checkpoints of Megatron or of train "
        "--save");
    arguments.Option("--out", out_, "DIR", "New folder to write");
    arguments.Option("--model", model_, "NAME|FILE",
                     "Model of the weights; default: FROM's config.json");
    arguments.Option("--family", options_.model_type, "TYPE",
                     "model_type to write; default: FROM's, else the first that has the model's "
                     "parts");
    arguments.Choice("--precision", precision_,
                     {{"auto", Precision::kOfFrom},
                      {"fp32", Precision::kFp32},
                      {"bf16", Precision::kBf16},
                      {"fp16", Precision::kFp16}},
                     "Format of the numbers; auto: that of FROM");
    arguments.Option("--merge-adapters", adapters_, "DIR",
                     "Add these PEFT adapters to the weights");
    arguments.Flag("--adapters-only", adapters_only_,
                   "Write the adapters of a training with --method lora alone, as PEFT's folder");
    arguments.Flag("--ema", averages_, "Take the moving averages of train --ema as weights");
    arguments.Bytes("--max-file", options_.max_file_bytes, "Largest file of weights");
    DeclareJson(arguments);
    arguments.Footer(
        "Writes config.json and model.safetensors, or several files with their index. The folder "
        "appears\ncomplete or not at all. Files of the tokenizer are copied from FROM.\n"
        "  foretrain convert llama3/ --precision bf16 --out llama3-bf16\n"
        "  foretrain convert llama3/ --merge-adapters my-lora/ --out merged\n"
        "  foretrain convert checkpoints --adapters-only --out my-lora");
  }

  Result<Exit> Run() override {
    if (from_.empty() || out_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "convert: give FROM and --out DIR");
    }
    PosixFileSystem files;
    if (adapters_only_) return WriteTrainedAdapters(files);
    FT_ASSIGN(const ModelSpec model, ReadModel(files));
    FT_ASSIGN(const Weights weights,
              OpenMergedWeights(files, {from_, averages_, adapters_, "--merge-adapters"}, model));
    options_.format = FormatFor(weights);
    FT_TRY(ReadCopied(files));
    FT_ASSIGN(const WrittenWeights written,
              WriteWeights(files, out_, model, weights.source, options_));
    Print(written, weights);
    return Exit::kDone;
  }

 private:
  enum class Precision { kOfFrom, kFp32, kBf16, kFp16 };

  // The base model's weights are not in the checkpoint: they were frozen.
  Result<Exit> WriteTrainedAdapters(FileSystem& files) {
    if (!adapters_.empty()) {
      return Fail(
          ErrorCode::kInvalidArgument,
          "--adapters-only: --merge-adapters adds adapters to weights; leave one of the two "
          "out");
    }
    FT_ASSIGN(const std::optional<Checkpoint> checkpoint, FindCheckpoint(files, from_));
    if (!checkpoint || !checkpoint->manifest().plan.HasAdapters()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--adapters-only: {} is no checkpoint of train --method lora",
                              Printable(from_, 512)));
    }
    FT_ASSIGN(const TensorSource source,
              averages_ ? AveragesOf(files, *checkpoint) : WeightsOf(files, *checkpoint));
    Weights weights;
    options_.format = FormatFor(weights);
    const Manifest& manifest = checkpoint->manifest();
    FT_ASSIGN(const WrittenWeights written,
              WriteAdapters(files, out_, manifest.model, source, manifest.plan,
                            {.format = options_.format, .model_type = options_.model_type}));
    Print(written, weights);
    return Exit::kDone;
  }

  // FROM's config.json is kept unless another model or family is asked for.
  Result<ModelSpec> ReadModel(FileSystem& files) {
    FT_ASSIGN(const ModelOfWeights found, FindModelOfWeights(files, from_, model_));
    if (!found.config.empty() && options_.model_type.empty()) {
      FT_ASSIGN(options_.config, ReadFile(files, found.config, kMaxConfigBytes));
    }
    return found.model;
  }

  Result<void> ReadCopied(FileSystem& files) {
    for (const std::string_view name : kCopied) {
      const std::string path = from_ + "/" + std::string(name);
      const auto info = files.Stat(path);
      if (!info.has_value() || info->kind != FileKind::kRegular) continue;
      FT_ASSIGN(options_.more[std::string(name)], ReadFile(files, path, kMaxTokenizerBytes));
    }
    return {};
  }

  NumberFormat FormatFor(const Weights& weights) const {
    switch (precision_) {
      case Precision::kFp32:
        return NumberFormat::kFp32;
      case Precision::kBf16:
        return NumberFormat::kBf16;
      case Precision::kFp16:
        return NumberFormat::kFp16;
      case Precision::kOfFrom:
        break;
    }
    return weights.format;
  }

  void Print(const WrittenWeights& written, const Weights& weights) const {
    const std::string_view format = NameOfFormat(options_.format);
    if (json_) {
      JsonWriter json;
      json.BeginObject().Field("schema", 1).Field("out", std::string_view(out_));
      json.Field("model_type", std::string_view(written.model_type)).Field("precision", format);
      json.Field("tensors", written.tensors).Field("bytes", written.bytes);
      json.Field("files", written.files);
      json.Field("left_out", std::span<const std::string>(weights.unused));
      std::puts(json.EndObject().Take().c_str());
      return;
    }
    std::printf("%s: %s, %lld tensors of %s in %s, %d file%s\n", Printable(out_, 512).c_str(),
                written.model_type.c_str(), static_cast<long long>(written.tensors),
                std::string(format).c_str(), FormatBytes(written.bytes).c_str(), written.files,
                written.files == 1 ? "" : "s");
    if (weights.unused.empty()) return;
    std::printf("left out %zu tensors that are no part of the model, the first is %s\n",
                weights.unused.size(), Printable(weights.unused.front(), 200).c_str());
  }

  std::string from_, out_, model_, adapters_;
  bool averages_ = false, adapters_only_ = false;
  Precision precision_ = Precision::kOfFrom;
  WeightWriterOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeConvert() { return std::make_unique<Convert>(); }

}  // namespace foretrain
