//! What is asked in a calibration: invented passages, so that no model can answer from memory, and questions of which some
//! need two of them.

/// A title and a text.
pub(super) const PASSAGES: [(&str, &str); 12] = [
    (
        "Orrin Vale",
        "The Orrin Vale is a car ferry that crosses Lake Sunder four times a day. She was laid down at the Tessel Yard in \
         1961 and entered service two years later under Captain Mirela Hask. With room for 34 cars and 210 passengers she \
         was the largest vessel on the lake until the Northern Light replaced her on the winter route in 1998. Her hull is \
         painted dark green with a single white stripe.",
    ),
    (
        "Tessel Yard",
        "Tessel Yard is a shipyard in the harbour town of Marrow Point. It was founded in 1902 by the brothers Ivo and \
         Casimir Brandt, who had built fishing boats on the same slipway for eleven years. At its height in the late 1950s \
         the yard employed 640 people. Since 2004 it has belonged to the Aldane Group and repairs research vessels and \
         yachts instead of building ferries.",
    ),
    (
        "Marrow Point",
        "Marrow Point lies on the eastern shore of Lake Sunder, where the river Quill flows into it. The town has 18,400 \
         inhabitants and is known for its smoked trout, its rope museum and the August regatta. Its mayor since 2015 is \
         Dorotea Finch, a former teacher of geography. A narrow-gauge railway connects the town with the provincial capital, \
         Ostwick, in fifty minutes.",
    ),
    (
        "The Salt Ledger",
        "The Salt Ledger is a novel by Henrike Solberg, published in 1987. It follows three generations of a family of \
         bookkeepers in the mining town of Varn. The book won the Kestrel Prize and was translated into nineteen languages. \
         Solberg wrote most of it in a rented room above a bakery, and she said later that the smell of bread had found its \
         way into every chapter.",
    ),
    (
        "Henrike Solberg",
        "Henrike Solberg (born 12 March 1944 in Ostwick) is a novelist and translator. After studying chemistry she worked \
         for nine years in a paint factory before her first book appeared. She is best known for The Salt Ledger and for her \
         translations of Portuguese poetry. Solberg lives with her husband, the cellist Anton Reyes, on a farm near Varn, \
         where she keeps bees.",
    ),
    (
        "Kestrel Prize",
        "The Kestrel Prize is awarded every second year for a work of prose. It was endowed in 1970 by the publisher \
         Leopold Amsel and carries 40,000 crowns and a small bronze bird. The jury has five members, none of whom may be a \
         writer. The prize is handed over in the old town hall of Ostwick on the first Sunday of November.",
    ),
    (
        "Varn mine",
        "The mine of Varn produced silver from 1540 and salt from 1811 until it was closed in 1979. Its deepest shaft, the \
         Charlotte, reaches 612 metres below ground. Today visitors can ride a small electric train to the third level, where \
         concerts are held in a chamber with an echo of eleven seconds. Engineer Paul Okonjo led the work that made the mine \
         safe again.",
    ),
    (
        "Paul Okonjo",
        "Paul Okonjo was a mining engineer and a mountaineer. Born in Lagos in 1938, he came to the technical college of \
         Ostwick on a scholarship and graduated first in his year. He invented a rock anchor that is still used in tunnels \
         all over the world. In 1983 he led the second ascent of the north wall of Mount Ebril, and he wrote a cookbook for \
         high camps.",
    ),
    (
        "Mount Ebril",
        "Mount Ebril is the highest mountain of the Corvan range at 4,312 metres. It was first climbed in 1911 by the \
         sisters Agnes and Rosa Thal, from the south. The north wall, which is 1,400 metres high and nearly always in the \
         shade, was not climbed before 1974. A weather station stands on the eastern shoulder, and a hut with forty beds \
         below it, the Thal Hut.",
    ),
    (
        "Aldane Group",
        "The Aldane Group is a holding company that owns shipyards, two cable factories and a chain of hotels. It was formed \
         in 1992 by Beatrix Aldane out of her father's trading house and has its seat in Port Lissom. In 2019 the group had \
         sales of 1.3 billion crowns. Its hotels are called Meridian, and every one of them has a library with at least two \
         thousand books.",
    ),
    (
        "Quill",
        "The Quill is a river 143 kilometres long. It rises on the slopes of Mount Ebril, runs through the Hallin gorge and \
         passes Varn before it reaches Lake Sunder. Salmon returned to it in 2001 after an absence of sixty years. Three \
         hydroelectric plants stand on its upper course; the largest of them, Hallin II, supplies the narrow-gauge railway.",
    ),
    (
        "Anton Reyes",
        "Anton Reyes is a cellist who was born in Valparaíso in 1947. He studied in Ostwick with Clara Wendt and was for \
         twenty-two years a member of the Lissom Quartet. His recording of the six suites by Bach, made in the echo chamber \
         of the Varn mine, received the Golden Bow in 1996. He plays an instrument of 1723 that once belonged to a baker.",
    ),
];

/// A question and the passages that a prompt has with it, in their order.
pub(super) const QUESTIONS: [(&str, &[usize]); 8] = [
    (
        "In which town was the ferry Orrin Vale built?",
        &[7, 1, 10, 0, 5, 3],
    ),
    (
        "Who is the husband of the author of The Salt Ledger, and what does he play?",
        &[4, 9, 2, 3, 8, 11],
    ),
    (
        "Which company owns the shipyard that built the Orrin Vale today?",
        &[0, 6, 9, 4, 1, 10],
    ),
    (
        "What did the engineer who made the Varn mine safe invent?",
        &[5, 7, 3, 2, 6, 0],
    ),
    (
        "Who first climbed the mountain on which the river Quill rises, and when?",
        &[10, 11, 1, 8, 9, 4],
    ),
    (
        "Where is the Kestrel Prize handed over, and how much money does it carry?",
        &[3, 5, 11, 2, 7, 6],
    ),
    (
        "In which chamber did Anton Reyes record the suites by Bach, and how long is its echo?",
        &[2, 11, 8, 6, 1, 5],
    ),
    (
        "How long does the train take from Marrow Point to the provincial capital, and what supplies the railway?",
        &[9, 10, 0, 2, 4, 7],
    ),
];
