// Dear ImGui's controls in the desktop's look, with what is on them kept in the frame's record.
// Leaves out shapes and plots: those are the Canvas's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ui/view/screen.h"

namespace foretrain::ui {

// Gives Dear ImGui the colours of `theme` and sizes for `scale`. Once a frame, before any widget.
void ApplyStyle(const Theme& theme, float scale);

// A borderless window in `box` that holds widgets; above shapes of the Canvas. `id` is unique in the
// desktop. It scrolls where its content is higher than the box. Always followed by EndPanel.
void BeginPanel(const ScreenFrame& frame, const Box& box, const char* id);
void EndPanel();

// Words in a panel. Each is a label of the record.
void Label(const ScreenFrame& frame, std::string_view text);                    // plain
void MutedLabel(const ScreenFrame& frame, std::string_view text);               // names of things
void Title(const ScreenFrame& frame, std::string_view text);                    // bold
void Figure(const ScreenFrame& frame, std::string_view text);                   // numbers: mono
void ColouredFigure(const ScreenFrame& frame, Colour colour, std::string_view text);
void Paragraph(const ScreenFrame& frame, std::string_view text);                // wraps
void Paragraph(const ScreenFrame& frame, std::string_view text, Colour colour);

// Controls: each draws `label` before itself where it has one, takes the rest of the line's width,
// and returns whether it was used in this frame. `label` is unique in its panel.
bool Button(const ScreenFrame& frame, const char* label, bool enabled = true);
// As high as a line of text, for tables; `name` tells it from others in the record.
bool SmallButton(const ScreenFrame& frame, const char* label, std::string_view name);
// Words that can be clicked, as wide as the panel.
bool LinkButton(const ScreenFrame& frame, const char* label);
bool Toggle(const ScreenFrame& frame, const char* label, bool* on);
bool Combo(const ScreenFrame& frame, const char* label, int* chosen,
           const std::vector<std::string>& items);
bool IntSlider(const ScreenFrame& frame, const char* label, int* value, int low, int high);
// `text`: how the value reads, with its unit. `logarithmic`: equal factors are equally long.
bool Slider(const ScreenFrame& frame, const char* label, double* value, double low, double high,
            const std::string& text, bool logarithmic = false);
// `room`: pixels left free to its right.
bool TextField(const ScreenFrame& frame, const char* label, std::string* text,
               const char* hint = "", float room = 0.0F);

// A sentence beside the mouse while it is over the widget before.
void Tooltip(const ScreenFrame& frame, std::string_view text);

// A table in the desktop's look: striped rows, a header that stays. Returns whether it is visible;
// only then rows follow, and EndTable. `sortable`: its header sorts (ImGui::TableGetSortSpecs), at
// first by column `sorted_by`, falling; -1: rising by the first. `height` 0: the rest of the panel.
bool BeginTable(const ScreenFrame& frame, const char* id, const std::vector<std::string>& columns,
                bool sortable = false, int sorted_by = -1, float height = 0.0F);
void EndTable();
// The next cell of a row (ImGui::TableNextRow begins one): words, or a number to the right in mono.
void Cell(const ScreenFrame& frame, std::string_view text);
void NumberCell(const ScreenFrame& frame, std::string_view text);
void NumberCell(const ScreenFrame& frame, std::string_view text, Colour colour);

// Puts the widget before into the record under `label`: for widgets drawn with Dear ImGui itself.
void Record(const ScreenFrame& frame, std::string_view label);

}  // namespace foretrain::ui
