#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/flags/bounded_numbers.h"
#include "app/commands/commands.h"
#include "app/weights/named_weights.h"
#include "app/weights/token_text.h"
#include "base/io/file_system.h"
#include "base/json/json.h"
#include "base/text.h"
#include "base/units.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/generation/generator.h"
#include "runtime/generation/sampling.h"
#include "runtime/run/run_clock.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxPromptBytes = 64 * kMiB;
constexpr std::int64_t kMaxTokens = 1'000'000;
// Windows grow in steps, so that runs of almost the same length compute the same.
constexpr std::int64_t kWindowStep = 16;

// Continues a prompt with the tokens that a model gives.
class Generate final : public Command {
 public:
  void Declare(Arguments& arguments) override {
    arguments.Positional(
        "FROM", from_,
        "A model's folder, a safetensors file, or checkpoints of Megatron or of train --save");
    arguments.Option("--prompt", prompt_, "TEXT", "Text to continue");
    arguments.Option("--prompt-file", prompt_file_, "FILE", "File with the text to continue");
    arguments.Option("--prompt-ids", prompt_ids_, "ID,...", "Tokens to continue");
    arguments.Parsed("--tokens", "N", "Tokens to add, at most", Into(tokens_, 1, kMaxTokens),
                     "100");
    arguments.Parsed("--temperature", "X",
                     "Draw tokens by their probability, with logits divided by X; 0: take the most "
                     "probable one",
                     Into(sampling_.temperature, 0, 1e3), "0");
    arguments.Parsed("--top-k", "N", "Draw from the N most probable tokens; 0: from all",
                     Into(sampling_.top_k, 0, std::numeric_limits<std::int64_t>::max()), "0");
    arguments.Parsed("--top-p", "0..1",
                     "Draw from the most probable tokens that reach this probability together",
                     Into(sampling_.top_p, 1e-9, 1), "1");
    arguments.Parsed("--seed", "N", "Seed of the draws",
                     Into(sampling_.seed, 0, std::numeric_limits<std::int64_t>::max()), "0");
    arguments.Option("--tokenizer", tokenizer_, "PATH",
                     "tokenizer.json, or its folder; default: FROM's, or that of the training; "
                     "without any a token is a byte");
    arguments.Option("--end", end_, "TOKEN",
                     "Token that ends the text; none: no token; default: the tokenizer's own");
    arguments.Option("--model", model_, "NAME|FILE",
                     "Model of the weights; default: FROM's config.json");
    arguments.Option("--adapters", adapters_, "DIR", "Add these PEFT adapters to the weights");
    arguments.Flag("--ema", averages_, "Take the moving averages of train --ema as weights");
    DeclareJson(arguments);
    arguments.Footer(
        "Computes on the CPU in fp32. Each token costs a forward pass over all tokens before it.\n"
        "  foretrain generate checkpoints --prompt \"Once upon a time\"\n"
        "  foretrain generate llama3/ --prompt-file start.txt --tokens 200 --temperature 0.8 "
        "--top-p 0.95");
  }

  Result<Exit> Run() override {
    if (from_.empty()) return Fail(ErrorCode::kInvalidArgument, "generate: give FROM");
    PosixFileSystem files;
    FT_ASSIGN(const ModelOfWeights found, FindModelOfWeights(files, from_, model_));
    FT_ASSIGN(const std::string tokenizer, TokenizerOf(files, found));
    FT_ASSIGN(text_, TokenText::Open(files, tokenizer));
    FT_ASSIGN(const std::int32_t end, EndToken());
    FT_ASSIGN(std::vector<std::int32_t> all, Prompt(files));
    FT_ASSIGN(const Weights weights,
              OpenMergedWeights(files, {from_, averages_, adapters_, "--adapters"}, found.model));
    const auto given = static_cast<std::int64_t>(all.size());
    RealClock clock;
    FT_ASSIGN(const auto generator, Generator::Make(found.model, Window(found.model, given),
                                                    weights.source, CpuDeviceApi(), clock));
    if (!json_) Show(text_.Decode(all), /*is_last=*/false);
    const std::int64_t start_ns = clock.Now();
    bool ended = false;
    while (static_cast<std::int64_t>(all.size()) < given + tokens_ && !ended) {
      FT_ASSIGN(const auto logits, generator->Logits(all));
      FT_ASSIGN(const std::int32_t token,
                ChooseToken(logits, sampling_, static_cast<std::int64_t>(all.size())));
      all.push_back(token);
      ended = token == end;
      if (!json_) Show(text_.Decode(all), /*is_last=*/false);
    }
    const double seconds = SecondsFromNs(clock.Now() - start_ns);
    if (json_) {
      Print(all, static_cast<std::size_t>(given), ended, seconds);
    } else {
      Show(text_.Decode(all), /*is_last=*/true);
    }
    return Exit::kDone;
  }

 private:
  // A pass over more tokens than there will be is lost work; more than the model knows positions
  // for is not possible.
  std::int64_t Window(const ModelSpec& model, std::int64_t given) const {
    const std::int64_t all = given + tokens_ - 1;
    return std::min(model.max_sequence, (all + kWindowStep - 1) / kWindowStep * kWindowStep);
  }

  // The one that is given, else FROM's own, else that of the training that saved the checkpoint.
  // Empty: a token is a byte.
  Result<std::string> TokenizerOf(FileSystem& files, const ModelOfWeights& found) const {
    if (!tokenizer_.empty()) return tokenizer_;
    const std::string own = from_ + "/tokenizer.json";
    if (const auto info = files.Stat(own); info.has_value() && info->kind == FileKind::kRegular) {
      return own;
    }
    if (!found.checkpoint) return std::string();
    const std::vector<std::string>& arguments = found.checkpoint->manifest().arguments;
    constexpr std::string_view kOption = "--tokenizer";
    std::string last;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string_view one = arguments[i];
      if (one == kOption && i + 1 < arguments.size()) last = arguments[i + 1];
      if (one.starts_with(std::string(kOption) + "=")) last = one.substr(kOption.size() + 1);
    }
    return last;
  }

  // -1: none.
  Result<std::int32_t> EndToken() const {
    if (end_ == "none") return -1;
    const std::int32_t id = text_.EndToken(end_);
    if (id >= 0 || end_.empty()) return id;
    return Fail(ErrorCode::kInvalidArgument,
                "--end: \"" + Printable(end_) + "\" is no token of the tokenizer");
  }

  Result<std::vector<std::int32_t>> Prompt(FileSystem& files) {
    const int given =
        (prompt_.empty() ? 0 : 1) + (prompt_file_.empty() ? 0 : 1) + (prompt_ids_.empty() ? 0 : 1);
    if (given != 1) {
      return Fail(ErrorCode::kInvalidArgument,
                  "generate: give one of --prompt, --prompt-file and --prompt-ids");
    }
    if (!prompt_ids_.empty()) {
      std::vector<std::int32_t> ids;
      for (const std::string_view one : Split(prompt_ids_, ',')) {
        FT_ASSIGN(const std::int64_t id,
                  ParseInt("--prompt-ids", Trim(one), 0, std::numeric_limits<std::int32_t>::max()));
        ids.push_back(static_cast<std::int32_t>(id));
      }
      return ids;
    }
    if (!prompt_file_.empty()) {
      FT_ASSIGN(prompt_, ReadFile(files, prompt_file_, kMaxPromptBytes));
    }
    std::vector<std::int32_t> ids = text_.Encode(prompt_);
    if (ids.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "generate: the prompt has no token to start from");
    }
    return ids;
  }

  // Prints the part of `text` that is new. A character that is not complete waits for the next
  // token.
  void Show(const std::string& text, bool is_last) {
    const std::size_t until = is_last ? text.size() : CompleteBytes(text);
    if (until > shown_) std::fwrite(text.data() + shown_, 1, until - shown_, stdout);
    shown_ = std::max(shown_, until);
    if (is_last) std::fputc('\n', stdout);
    std::fflush(stdout);
  }

  void Print(const std::vector<std::int32_t>& all, std::size_t given, bool ended,
             double seconds) const {
    const std::string before = text_.Decode(std::span(all).first(given));
    const std::string text = text_.Decode(all);
    const std::span<const std::int32_t> added = std::span(all).subspan(given);
    JsonWriter json;
    json.BeginObject().Field("schema", 1).Field("prompt_tokens", static_cast<std::int64_t>(given));
    json.Name("tokens").BeginArray();
    for (const std::int32_t token : added) json.Integer(token);
    json.EndArray();
    json.Field("text", std::string_view(text).substr(std::min(before.size(), text.size())));
    json.Field("ended", ended).Field("seconds", seconds);
    json.Field("tokens_per_s", seconds > 0 ? static_cast<double>(added.size()) / seconds : 0.0);
    std::puts(json.EndObject().Take().c_str());
  }

  std::string from_, prompt_, prompt_file_, prompt_ids_, tokenizer_, end_, model_, adapters_;
  bool averages_ = false;
  std::int64_t tokens_ = 100;
  Sampling sampling_;
  TokenText text_;
  std::size_t shown_ = 0;  // bytes of the text so far
};

}  // namespace

std::unique_ptr<Command> MakeGenerate() { return std::make_unique<Generate>(); }

}  // namespace foretrain
