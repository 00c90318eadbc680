/* Prints the job's keys with the ends of what each allows, a JSON object per line, for test_limits.py. */
#include <stdio.h>

#include "config/job_table.h"

static void print_whole(const struct weir_row *row)
{
    double low = row->above_min ? row->min + 1 : row->min;
    printf("\"ends\": [%.0f, %.0f]", low, row->max);
}

static void print_choices(const struct weir_choice *choice)
{
    const char *separator = "";
    printf("\"ends\": [");
    for (; choice->name; choice++) {
        if (choice->refused)
            continue;
        printf("%s\"%s\"", separator, choice->name);
        separator = ", ";
    }
    printf("]");
}

static void print_ends(const struct weir_row *row)
{
    switch (row->type) {
    case WEIR_ROW_U32:
        print_whole(row);
        break;
    case WEIR_ROW_U64:
        printf("\"ends\": [0, %lld]", (long long)INT64_MAX); /* more is no integer of the job file */
        break;
    case WEIR_ROW_DOUBLE:
        printf("\"ends\": [%s, 1e308]", row->above_min ? "1e-308" : "0");
        break;
    case WEIR_ROW_BOOL:
        printf("\"ends\": [false, true]");
        break;
    case WEIR_ROW_CHOICE:
    case WEIR_ROW_PICK:
        print_choices(row->choices);
        break;
    default:
        printf("\"ends\": null"); /* texts, and what has keys of its own */
    }
}

int main(void)
{
    for (size_t i = 0; i < weir_job_row_count; i++) {
        printf("{\"key\": \"%s\", ", weir_job_rows[i].name);
        print_ends(&weir_job_rows[i]);
        printf("}\n");
    }
    return 0;
}
